/* An operation of the MIL program, and its arguments by name. */
#ifndef ECM_NODE_H
#define ECM_NODE_H

#include "model.h"

enum { ECM_MAX_VALUES = 64 };

typedef struct ecm_node {
  ect_graph *g;
  const ect_node *node;
  int64_t result;   /* the first one, of operators with one */
  ect_tensor type;  /* its type */
  uint32_t unknown; /* its dimensions without a size in the payload */
  const char *name; /* of the operator, for traces */
} ecm_node;

/* Finds an argument; *out is NULL if the operation has none. */
uint32_t ecm_argument(ecm_node *n, const char *name, const ect_operand **out);
/* Finds the number in the program of an argument. */
uint32_t ecm_use(ecm_node *n, const ect_operand *o, int64_t *out);
/* Fails without the argument. */
uint32_t ecm_input(ecm_node *n, const char *name, int64_t *out);
/* Reads a constant; `otherwise` without it. */
uint32_t ecm_number(ecm_node *n, const char *name, double otherwise, double *out);
/* Reads constant ints into `out`, `*count` of them; 0 without the argument. */
uint32_t ecm_numbers(ecm_node *n, const char *name, int64_t *out, size_t room, size_t *count);
bool ecm_text_is(ecm_node *n, const char *name, const char *text, bool otherwise);
/* Returns 0 for what is no int64. */
static inline int64_t ecm_to_int(double number) {
  return number > -9e18 && number < 9e18 ? (int64_t)number : 0;
}
/* Finds numbers that have to be constant: an attribute or an argument. *exists is false without. */
uint32_t ecm_constant(ecm_node *n, const char *name, ect_operand *out, bool *exists);
uint32_t ecm_refuse(ecm_node *n, const char *why);
/* Adds a computed tensor. */
int64_t ecm_add_like(ecm_node *n, const ect_tensor *like, int32_t dtype);
/* Finds an argument with its type. */
uint32_t ecm_typed(ecm_node *n, const char *name, int64_t *id, ect_tensor *out);
/* Reads a list of ints, constant or computed, as values of the program; 0 without the argument. */
uint32_t ecm_ints(ecm_node *n, const char *name, int64_t *ids, size_t room, size_t *count);
/* Reads an argument of several values, as ids and the type of the first. */
uint32_t ecm_list(ecm_node *n, const char *name, int64_t *ids, size_t room, size_t *count);
/* Reads an axis of x, which may be negative. */
uint32_t ecm_axis(ecm_node *n, const char *name, int64_t otherwise, uint32_t rank, int64_t *out);

/* Finds all results of a node that has several, at most ECM_MAX_VALUES. */
uint32_t ecm_results(ecm_node *n, int64_t *ids, size_t *count);

/* Adds a call. The shown one, the last of a node, carries the node's name in a trace. */
uint32_t ecm_call_op(ecm_node *n, const char *op, const int64_t *args, size_t count,
                     const int64_t *outs, size_t out_count, bool is_shown);
/* Adds a helper call, whose result is a new tensor; `like` NULL: as the node's result. */
uint32_t ecm_step(ecm_node *n, const char *op, const int64_t *args, size_t count,
                  const ect_tensor *like, int64_t *out);
/* Adds the shown call, which computes the node's result. */
uint32_t ecm_finish(ecm_node *n, const char *op, const int64_t *args, size_t count);

#endif
