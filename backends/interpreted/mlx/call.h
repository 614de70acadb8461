/* A node under translation: its arguments, by the names of the schema's fields, and its result.
 * Types of results follow from those of arguments: the payload has none. */
#ifndef EMX_CALL_H
#define EMX_CALL_H

#include "../graph.h"
#include "../pack.h"
#include "../translate.h"

typedef struct emx_call {
  ect_graph *g;
  const ect_node *n;
  const ec_backend_node *shown;
} emx_call;

/* A node that operators.def names: ECT_SPECIAL. */
typedef uint32_t emx_special(const emx_call *c);

#define EMX_REFUSE(c, ...) ect_refuse((c)->g, EC_BACKEND_NOT_SUPPORTED, __VA_ARGS__)
#define EMX_INVALID(c, ...) ect_refuse((c)->g, EC_BACKEND_INVALID_PROGRAM, __VA_ARGS__)

/* ---- arguments ------------------------------------------------------------------------------- */

/* Returns the operand of an argument; ECT_ABSENT: there is none. */
uint32_t emx_find(const emx_call *c, const char *name);
/* Finds a tensor. */
uint32_t emx_tensor(const emx_call *c, const char *name, int64_t *value, ect_tensor *type);
/* The same; None, if it is absent: `type->dtype` is then -1. */
uint32_t emx_optional(const emx_call *c, const char *name, int64_t *value, ect_tensor *type);
/* Finds a number of the payload, not one that the graph computes. */
uint32_t emx_literal(const emx_call *c, const char *name, int64_t otherwise, int64_t *out);
bool emx_bool(const emx_call *c, const char *name, bool otherwise);
double emx_double(const emx_call *c, const char *name, double otherwise);
/* Finds a literal axis of a tensor, not negative. */
uint32_t emx_axis(const emx_call *c, const char *name, uint32_t rank, uint32_t *out);
/* Finds an int that the graph may compute, and its upper bound: -1 if that is unknown. */
uint32_t emx_int(const emx_call *c, const char *name, int64_t *value, int64_t *bound,
                 bool *is_literal);
/* Finds a list of such ints: at most ECT_MAX_RANK bounds. */
uint32_t emx_ints(const emx_call *c, const char *name, int64_t *value, int64_t *bounds,
                  uint32_t *count, bool *is_literal);
/* Finds a list of literal ints: at most ECT_MAX_RANK. */
uint32_t emx_literals(const emx_call *c, const char *name, int64_t *items, uint32_t *count);

/* ---- types ----------------------------------------------------------------------------------- */

/* Returns the dtype that MLX promotes two to. */
int32_t emx_promote(int32_t a, int32_t b);
/* Returns a floating-point dtype, or float32. */
int32_t emx_float(int32_t dtype);
/* Returns the dtype that the runtime computes with: uint16 to uint64 are int64. */
int32_t emx_work(int32_t dtype);
/* Returns the dtype in which the runtime compares: bools are uint8, uint64s int64s with the highest
 * bit changed. */
int32_t emx_order_type(int32_t dtype);
/* Returns a computed tensor of a type's sizes. */
ect_tensor emx_like(const ect_tensor *type, int32_t dtype);
/* Makes a type that of two that broadcast. */
void emx_broadcast(ect_tensor *type, const ect_tensor *other);
/* Sets the type of an operand that a node computes. */
void emx_set_type(ect_graph *g, uint32_t operand, const ect_tensor *type);

/* Returns the dtype of a sum or product: bools and small ints are added as ints. */
int32_t emx_sum_type(int32_t dtype);
/* Removes the dimensions of the field `axes`, or all, from a type. */
uint32_t emx_reduce_type(const emx_call *c, ect_tensor *type);
/* Reads the field scalar_type. */
uint32_t emx_scalar_type(const emx_call *c, int32_t otherwise, int32_t *out);

/* ---- calls ----------------------------------------------------------------------------------- */

/* Adds a call with one result of a type, a helper. */
uint32_t emx_helper(const emx_call *c, const char *op, const int64_t *args, size_t count,
                    const ect_tensor *type, int64_t *out);
/* Adds the call whose result is the node's, of a type; the runtime may compute it in another. */
uint32_t emx_finish(const emx_call *c, const char *op, const int64_t *args, size_t count,
                    const ect_tensor *type);
/* Converts a tensor, by way of `dtype`, to emx_order_type(dtype). */
uint32_t emx_order(const emx_call *c, int64_t value, const ect_tensor *type, int32_t dtype,
                   int64_t *out);
/* The same as emx_finish for a call that computes in emx_order_type(type->dtype). */
uint32_t emx_finish_order(const emx_call *c, const char *op, const int64_t *args, size_t count,
                          const ect_tensor *type);

#endif
