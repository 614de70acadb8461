/* Linear layers and matrix products. */
#include "nodes.h"

#define DONE(b, n, what, call) ecx_node_status((b), (n), (what), (call))

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

uint32_t ecx_define_attention(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_scaled_dot_product_attention", xnn_status_unsupported_parameter);
}
