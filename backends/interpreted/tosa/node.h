/* A node under translation: its operands as values of the program, and its calls. */
#ifndef ETS_NODE_H
#define ETS_NODE_H

#include "dtypes.h"

typedef uint32_t ets_translate_fn(ect_graph *g, const ect_node *n);

/* Finds an input. Fails if there is none. */
uint32_t ets_input(ect_graph *g, const ect_node *n, uint32_t index, const ect_operand **out);
/* Finds the number in the program of an input that is a tensor. */
uint32_t ets_tensor(ect_graph *g, const ect_node *n, uint32_t index, int64_t *out);
/* Adds the numbers of an input that is a shape, as a list. */
uint32_t ets_shape(ect_graph *g, const ect_node *n, uint32_t index, int64_t *out);
const ect_operand *ets_attribute(const ect_graph *g, const ect_node *n, size_t attribute);
/* Returns an item of an attribute; 0 beyond its end. */
int64_t ets_attribute_at(const ect_graph *g, const ect_node *n, size_t attribute, size_t index);
/* Adds an attribute that is a list of numbers. */
int64_t ets_list(ect_graph *g, const ect_node *n, size_t attribute);
bool ets_is_float(uint32_t dtype);
/* Adds a tensor for a result between calls. */
int64_t ets_add_tensor(ect_graph *g, uint32_t dtype, uint32_t rank, const int64_t *sizes);

/* Finds the first result. */
uint32_t ets_result(ect_graph *g, const ect_node *n, ect_operand **out);
/* Adds the call whose results are the node's, under its name. */
uint32_t ets_call_op(ect_graph *g, const ect_node *n, const char *op, const int64_t *args,
                     size_t count);
/* Translates the results, whose numbers in the program are then in `outs`. */
uint32_t ets_define_results(ect_graph *g, const ect_node *n, int64_t *outs);
/* Adds a call before it, with one result. */
uint32_t ets_call_step(ect_graph *g, const char *op, const int64_t *args, size_t count,
                       int64_t result);
/* Adds a tensor with the dimensions of another in this order, and the call that computes it. */
uint32_t ets_permute(ect_graph *g, int64_t tensor, const int64_t *order, int64_t *out);
/* Converts a tensor, unless it has the dtype (both of TOSA). */
int64_t ets_convert(ect_graph *g, int64_t tensor, uint32_t from, uint32_t to);

#endif
