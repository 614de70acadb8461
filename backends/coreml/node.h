/* An operation of the MIL program, and its arguments by name. */
#ifndef ECM_NODE_H
#define ECM_NODE_H

#include "model.h"

enum { ECM_WHAT_BYTES = 200 };

typedef struct ecm_node {
  ecm_model *m;
  ecm_bytes message;
  char what[ECM_WHAT_BYTES]; /* in messages */
  ec_backend_node shown;
  int64_t result;   /* the first one */
  ecm_value type;   /* its type */
} ecm_node;

/* Finds an argument; *out is NULL if the operation has none. */
uint32_t ecm_argument(ecm_node *n, const char *name, ecm_value **out);
/* Fails without the argument. */
uint32_t ecm_input(ecm_node *n, const char *name, int64_t *out);
/* Reads a constant; `otherwise` without it. */
uint32_t ecm_number(ecm_node *n, const char *name, double otherwise, double *out);
/* Reads constant ints into `out`, `*count` of them; 0 without the argument. */
uint32_t ecm_numbers(ecm_node *n, const char *name, int64_t *out, size_t room, size_t *count);
bool ecm_text_is(ecm_node *n, const char *name, const char *text, bool otherwise);
uint32_t ecm_refuse(ecm_node *n, const char *why);
/* Returns an element of a constant whose dtype is not string. */
double ecm_number_at(const ecm_value *v, size_t i);
/* Adds a computed tensor. */
int64_t ecm_add_like(ecm_node *n, const ect_tensor *like, int32_t dtype);

#endif
