/* Linear layers and matrix products. */
#include "nodes/define.h"
#include "nodes/graph.h"
#include "payload/values.h"

uint32_t ecx_define_linear(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_fully_connected",
              xnn_define_fully_connected(b->subgraph, n->min, n->max, ecx_in_id(b, n, 0),
                                         ecx_in_id(b, n, 1), ecx_in_id(b, n, 2),
                                         ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_matmul(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_batch_matrix_multiply",
              xnn_define_batch_matrix_multiply(b->subgraph, ecx_in_id(b, n, 0), ecx_in_id(b, n, 1),
                                               ecx_out_id(b, n, 0), n->flags));
}

/* Defines an intermediate value of a node. */
static enum xnn_status define_intermediate(const ecx_builder *b, const ecx_value *like,
                                           const ecx_shape *shape, uint32_t *id) {
  return xnn_define_tensor_value(b->subgraph, ecx_dtypes[like->dtype].as, shape->rank, shape->dims,
                                 NULL, XNN_INVALID_VALUE_ID, 0, id);
}

/* Composed of several nodes: XNNPACK's node of this name is less general (the reference has
 * none). */
uint32_t ecx_define_attention(ecx_builder *b, const ecx_node *n) {
  const ecx_value *query = ecx_in(b->graph, n, 0);
  const struct xnn_binary_params unbounded = {-__builtin_inff(), __builtin_inff()};
  ecx_shape scores = query->shape;
  uint32_t scaled, products, masked, weights;
  scores.dims[scores.rank - 1] = ecx_in(b->graph, n, 1)->shape.dims[scores.rank - 2];
  enum xnn_status status = define_intermediate(b, query, &query->shape, &scaled);
  if (!status) status = define_intermediate(b, query, &scores, &products);
  if (!status) status = define_intermediate(b, query, &scores, &masked);
  if (!status) status = define_intermediate(b, query, &scores, &weights);
  if (!status)
    status = xnn_define_binary(b->subgraph, xnn_binary_multiply, &unbounded, ecx_in_id(b, n, 0),
                               ecx_in_id(b, n, 3), scaled, 0);
  if (!status)
    status = xnn_define_batch_matrix_multiply(b->subgraph, scaled, ecx_in_id(b, n, 1), products,
                                              XNN_FLAG_TRANSPOSE_B);
  if (!status)
    status = xnn_define_binary(b->subgraph, xnn_binary_add, &unbounded, products,
                               ecx_in_id(b, n, 4), masked, 0);
  if (!status) status = xnn_define_softmax(b->subgraph, masked, weights, 0);
  if (!status)
    status = xnn_define_batch_matrix_multiply(b->subgraph, weights, ecx_in_id(b, n, 2),
                                              ecx_out_id(b, n, 0), 0);
  return DONE(b, n, "scaled dot product attention", status);
}
