/* A node under translation: its operands as values of the program, and its calls. */
#ifndef ETS_NODE_H
#define ETS_NODE_H

#include "graph.h"

typedef uint32_t ets_translate_fn(ets_graph *g, const ets_node *n);

const char *ets_op_name(uint32_t op);
/* Fails with a message that begins with the node. */
uint32_t ets_refuse(ets_graph *g, const ets_node *n, uint32_t status, const char *why);

/* Finds an input. Fails if there is none, or nothing has defined it. The pointer is valid until
 * values are added to the graph, which translation does not do. */
uint32_t ets_input(ets_graph *g, const ets_node *n, uint32_t index, const ets_value **out);
/* Returns the number in the program of an input that is a tensor. */
uint32_t ets_tensor(ets_graph *g, const ets_node *n, uint32_t index, int64_t *out);
/* Adds the numbers of an input that is a shape, as a list. */
uint32_t ets_shape(ets_graph *g, const ets_node *n, uint32_t index, int64_t *out);
/* Adds an attribute that is a list of numbers. */
int64_t ets_list(ets_graph *g, const ets_node *n, size_t attribute);
bool ets_is_float(uint32_t dtype);
/* Adds a tensor for a result between calls. */
int64_t ets_add_tensor(ets_graph *g, uint32_t dtype, uint32_t rank, const int64_t *sizes);

/* The first result. */
uint32_t ets_result(ets_graph *g, const ets_node *n, const ets_value **out);
/* Adds the call whose results are the node's, under its name. */
uint32_t ets_call_op(ets_graph *g, const ets_node *n, const char *op, const int64_t *args,
                     size_t count);
/* Translates the results, whose numbers in the program are then in `outs`. */
uint32_t ets_define_results(ets_graph *g, const ets_node *n, int64_t *outs);
/* Adds a call before it, with one result. */
uint32_t ets_call_step(ets_graph *g, const ets_node *n, const char *op, const int64_t *args,
                       size_t count, int64_t result);
/* The same with several results. */
uint32_t ets_call_steps(ets_graph *g, const ets_node *n, const char *op, const int64_t *args,
                        size_t count, const int64_t *results, size_t result_count);
/* Adds a tensor with the dimensions of another in this order, and the call that computes it. */
uint32_t ets_permute(ets_graph *g, const ets_node *n, int64_t tensor, const int64_t *order,
                     int64_t *out);
/* Converts a tensor, unless it has the dtype (both of TOSA). */
int64_t ets_convert(ets_graph *g, int64_t tensor, uint32_t from, uint32_t to);

#endif
