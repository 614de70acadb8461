/* Operations that are not one row. */
#ifndef ECM_SPECIAL_H
#define ECM_SPECIAL_H

#include "node.h"

typedef uint32_t ecm_special(ecm_node *n);

/* Those of several results, or none, define them. */
ecm_special ecm_call_argmax, ecm_call_argmin, ecm_call_argsort, ecm_call_attention,
    ecm_call_avg_pool, ecm_call_batch_norm, ecm_call_bilinear, ecm_call_concat, ecm_call_conv,
    ecm_call_conv_transpose, ecm_call_cumsum, ecm_call_dequantize, ecm_call_fill, ecm_call_gather,
    ecm_call_gather_along, ecm_call_gather_nd, ecm_call_gelu, ecm_call_instance_norm,
    ecm_call_inverse, ecm_call_layer_norm, ecm_call_log, ecm_call_log_sum_exp, ecm_call_matmul,
    ecm_call_max_pool, ecm_call_nearest, ecm_call_one_hot, ecm_call_pad, ecm_call_prelu,
    ecm_call_prod, ecm_call_quantize, ecm_call_read_state, ecm_call_resize_bilinear, ecm_call_rsqrt,
    ecm_call_scatter, ecm_call_scatter_along, ecm_call_scatter_nd, ecm_call_shape, ecm_call_silu,
    ecm_call_slice, ecm_call_slice_by_size, ecm_call_slice_update, ecm_call_split, ecm_call_stack,
    ecm_call_thresholded_relu, ecm_call_tile, ecm_call_topk, ecm_call_view, ecm_call_write_state;

#endif
