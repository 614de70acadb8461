/* The translation of a payload: its values as values of a program, by name. */
#ifndef ECN_GRAPH_H
#define ECN_GRAPH_H

#include "payload.h"

typedef struct ecn_graph {
  ec_backend_call c;
  ecn_payload payload;
  ect_program program;
  ect_names metas;   /* numbers of tensor_values */
  ect_names values;  /* numbers in the program */
  ect_names buffers; /* by fully qualified name: numbers in the program */
  unsigned depth;    /* of branches around the nodes that are translated */
} ecn_graph;

/* The scope of a graph's nodes: values of a branch have names of their own. */
typedef struct ecn_scope {
  ecn_payload payload;
  ect_names metas, values;
} ecn_scope;

/* Functions of an ect_format. */
uint32_t ecn_graph_open(void *graph, const ec_backend_call *c, const ec_backend_init *what);
void ecn_graph_close(void *graph);

/* Enters a branch without values; `outer` keeps what was seen before. The caller leaves, after
 * failures too. */
uint32_t ecn_scope_enter(ecn_graph *g, ec_fb_table graph, ecn_scope *outer);
void ecn_scope_leave(ecn_graph *g, const ecn_scope *outer);

/* Adds constants, state and the tensors of inputs. */
uint32_t ecn_add_constants(ecn_graph *g);
uint32_t ecn_add_inputs(ecn_graph *g);

/* Gives a value a name; later ones replace it. */
uint32_t ecn_set_value(ecn_graph *g, ect_text name, int64_t value);
/* Finds a value by name. */
uint32_t ecn_find_value(ecn_graph *g, ect_text name, int64_t *out);
/* Adds a computed tensor of this name, whose sizes are in tensor_values. */
uint32_t ecn_add_tensor(ecn_graph *g, ect_text name, int64_t *out);

#endif
