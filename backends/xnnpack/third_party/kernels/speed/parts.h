/* Weights of a linear layer: packed in parts by all threads, or by the third product. */
#ifndef ECX_PARTS_H
#define ECX_PARTS_H

#include <pthreadpool.h>

#include "xnnpack.h"
#include "xnnpack/cache.h"
#include "xnnpack/common.h"
#include "xnnpack/config-types.h"
#include "xnnpack/microfnptr.h"
#include "xnnpack/operator-type.h"

/* Threads of the runtime that is being created, NULL if there are none. */
extern XNN_INTERNAL _Thread_local pthreadpool_t ecx_packing_threads;

/* The parameters of create_fully_connected_nc that packing needs. */
struct ecx_weights {
  size_t input_channels, output_channels, row_bits, weights_stride, nr, kr, sr;
  size_t block_size, num_blocks, extra_bl_bytes, extra_weights_bytes, bias_element_size;
  size_t scales_offset; /* of a tile: after its weights and biases */
  const void *kernel, *bias, *packing_params;
  const uint16_t* block_scales;
  const float *kernel_scales, *scales;
  xnn_packw_gemm_goi_ukernel_fn pack;
  xnn_packw_gemm_goi_bl_ukernel_fn pack_bl;
  xnn_init_qs8_qc8w_scale_params_fn init_kernel_scales, init_scales;
  int padding_byte;
  bool is_filled; /* no paddings and no biases that nothing writes */
  char* packed;
};

/* groups.c: true if there is a faster function for whole tiles of these weights, which packs them
 * and returns the number of packed channels. */
XNN_INTERNAL bool ecx_packs_groups(const struct ecx_weights* w);
XNN_INTERNAL size_t ecx_pack_groups(const struct ecx_weights* w, size_t first, size_t channels,
                                    char* packed);

/* True if the configuration packs weights in parts, by functions that take a range of channels. */
XNN_INTERNAL bool ecx_packs_in_parts(const struct xnn_gemm_config* config);

/* Packs all weights into `total` bytes, of which the last ones may be beyond the last tile. */
XNN_INTERNAL void ecx_pack(const struct ecx_weights* w, size_t total);

/* Reserves memory for weights, of `total` bytes, that a product will pack. NULL: they have to be
 * packed now, because they are few or the cache cannot keep their source. */
XNN_INTERNAL void* ecx_defer(xnn_weights_cache_t cache,
                             const struct xnn_weights_cache_look_up_key* key,
                             enum xnn_operator_type type, const struct ecx_weights* weights,
                             size_t total);

#endif
