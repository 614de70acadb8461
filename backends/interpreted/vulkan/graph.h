/* The translation of a payload: its values as values of a program. */
#ifndef ECV_GRAPH_H
#define ECV_GRAPH_H

#include "../values.h"
#include "payload.h"

enum { ECV_MOST_ITEMS = 64 }; /* of a list whose tensors are converted, or are results */

typedef struct ecv_graph {
  ec_backend_call c;
  ecv_payload payload;
  ect_program program;
  int64_t *values;    /* by id: the number in the program; -1: not translated yet */
  int64_t *sources;   /* by id: the constant that et_vk.prepack copies; -1: none */
  uint8_t *written;   /* by id: a result (not of et_vk.prepack), or written in place */
  uint8_t *computed;  /* by id: an input, or the result of a call that has been translated */
  int64_t *constants; /* by id: the number in the program; -1: not used yet */
} ecv_graph;

/* Functions of an ect_format. */
uint32_t ecv_graph_open(void *graph, const ec_backend_call *c, const ec_backend_init *what);
void ecv_graph_close(void *graph);

/* Fails with the place before the message. */
#define ecv_refuse(g, status, message, ...)                                                        \
  EC_BACKEND_FAIL(&(g)->c, status, "%s" message, (g)->program.place, __VA_ARGS__)

/* Fails if the value is a tensor, or a list with one, that nothing has computed so far. */
uint32_t ecv_check_computed(ecv_graph *g, int64_t id);
/* Returns the number of a value in the program, translated at its first use. */
uint32_t ecv_value(ecv_graph *g, int64_t id, int64_t *out);
/* Fails unless the value is a tensor. The pointer is valid until the next value is added. */
uint32_t ecv_tensor(ecv_graph *g, int64_t id, int64_t *out, const ect_tensor **tensor);

#endif
