/* Nodes that are not one row of operators.def. */
#ifndef EMX_SPECIAL_H
#define EMX_SPECIAL_H

#include "call.h"

/* reduce.c */
emx_special emx_call_reduce, emx_call_cumsum, emx_call_silu, emx_call_round, emx_call_sort,
    emx_call_abs, emx_call_sign, emx_call_floor_divide, emx_call_remainder;
/* control.c */
emx_special emx_call_sym_size, emx_call_item, emx_call_noop, emx_call_if, emx_call_scan;
/* matrix.c */
emx_special emx_call_addmm, emx_call_gather_mm, emx_call_quantized_matmul, emx_call_dequantize,
    emx_call_norm, emx_call_rope, emx_call_sdpa, emx_call_update_and_attend, emx_call_conv;
/* shapes.c */
emx_special emx_call_expand_dims, emx_call_squeeze, emx_call_reshape, emx_call_broadcast_to,
    emx_call_tile, emx_call_transpose, emx_call_as_strided, emx_call_pad, emx_call_repeat;
/* indexing.c */
emx_special emx_call_slice, emx_call_slice_update, emx_call_index_copy, emx_call_take,
    emx_call_take_along_axis, emx_call_scatter_add, emx_call_gather, emx_call_split,
    emx_call_concatenate;
/* create.c */
emx_special emx_call_arange, emx_call_full, emx_call_tri, emx_call_random_bits;

#endif
