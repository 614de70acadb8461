/* Packing of a linear layer's weights in parts, by all threads. XNNPACK fills the memory, packs,
 * then writes scales, each over all weights and in one thread; a part of 64 KB stays in the cache
 * from the first step to the last, and each thread populates the pages that it writes.
 *
 * Weights are [output channels, input channels], packed in tiles of nr channels, each of nr *
 * weights_stride bytes; a part is a number of tiles. */
#include "executorch_c/speed/parts.h"

#include <string.h>

#include "executorch_c/speed/deferred.h"
#include "executorch_c/speed/ecx.h"
#include "xnnpack/math.h"
#include "xnnpack/microparams-init.h"
#include "xnnpack/pack.h"

enum { ECX_PART_BYTES = 1 << 16 };

_Thread_local pthreadpool_t ecx_packing_threads = NULL;

static const void* ecx_advance(const void* at, size_t count, size_t bytes) {
  return at == NULL ? NULL : (const char*) at + count * bytes;
}

static void ecx_write_floats(xnn_init_qs8_qc8w_scale_params_fn write, const struct ecx_weights* w,
                             size_t channels, const float* from, char* to) {
  const size_t tile_bytes = w->nr * w->weights_stride;
  write(channels, w->nr, w->nr, tile_bytes, tile_bytes, 0, from, to);
}

static void ecx_write_scales(const struct ecx_weights* w, size_t first, size_t channels,
                             char* packed) {
  char* at = packed + w->scales_offset;
  if (w->kernel_scales != NULL) {
    ecx_write_floats(w->init_kernel_scales, w, channels, w->kernel_scales + first, at);
    at += w->nr * sizeof(float);
  }
  if (w->scales != NULL) {
    const bool is_one = w->init_scales == xnn_init_qs8_to_qs8_qc8w_scale_fp32_params;
    ecx_write_floats(w->init_scales, w, channels, w->scales + (is_one ? 0 : first), at);
  }
}

static void ecx_write_blocks(const struct ecx_weights* w, size_t first, size_t channels,
                             char* packed) {
  const size_t tile_bytes = w->nr * w->weights_stride, block_bytes = w->block_size / 2;
  xnn_init_blockwise_scale_bf16_params(
      channels, w->nr, w->nr, tile_bytes, tile_bytes, w->num_blocks,
      w->nr * (block_bytes + sizeof(uint16_t)), 0,
      (const xnn_bfloat16*) w->block_scales + first * w->num_blocks,
      packed + w->nr * (sizeof(float) + block_bytes));
  if (w->bias != NULL) {
    ecx_write_floats(xnn_init_qs8_qc8w_scale_fp32_params, w, channels,
                     (const float*) w->bias + first,
                     packed + w->nr * (w->weights_stride - sizeof(float)));
  }
}

/* Packs `channels` output channels from `first` on, which is a multiple of nr. */
static void ecx_pack_channels(const struct ecx_weights* w, size_t first, size_t channels,
                              char* packed) {
  const size_t done = ecx_pack_groups(w, first, channels, packed);
  if (done == channels) return;
  first += done;
  channels -= done;
  packed += done * w->weights_stride;
  const void* kernel = (const char*) w->kernel + first * w->row_bits / 8; /* nr is even */
  const void* bias = ecx_advance(w->bias, first, w->bias_element_size);
  const size_t extra = w->nr * w->extra_weights_bytes;
  if (!w->is_filled) memset(packed, w->padding_byte, round_up(channels, w->nr) * w->weights_stride);
  if (w->block_size != 0) {
    w->pack_bl(1, channels, w->input_channels, w->nr, w->kr, w->sr, w->block_size, kernel, NULL,
               w->block_scales + first * w->num_blocks, packed, w->nr * w->extra_bl_bytes, extra,
               w->packing_params);
  } else {
    w->pack(1, channels, w->input_channels, w->nr, w->kr, w->sr, kernel, bias, NULL, packed, extra,
            w->packing_params);
  }
  ecx_write_scales(w, first, channels, packed);
  if (w->block_size != 0) ecx_write_blocks(w, first, channels, packed);
}

/* Packs them into their place, on the thread that populates its pages. */
static void ecx_pack_part(void* context, size_t first, size_t channels) {
  const struct ecx_weights* w = context;
  char* packed = w->packed + first * w->weights_stride;
  ecx_populate(packed, round_up(channels, w->nr) * w->weights_stride);
  ecx_pack_channels(w, first, channels, packed);
}

bool ecx_packs_in_parts(const struct xnn_gemm_config* config) {
  return config->pack_weights_and_biases == NULL ||
         config->pack_weights_and_biases ==
             (xnn_pack_weights_and_biases_fn) xnn_pack_qs4_weights_and_biases;
}

void ecx_pack(const struct ecx_weights* w, size_t total) {
  const size_t tile_bytes = w->nr * w->weights_stride;
  const size_t used = round_up(w->output_channels, w->nr) * w->weights_stride;
  const size_t tiles = tile_bytes < ECX_PART_BYTES ? ECX_PART_BYTES / tile_bytes : 1;
  memset(w->packed + used, w->padding_byte, total - used);
  pthreadpool_parallelize_1d_tile_1d(ecx_packing_threads, ecx_pack_part, (void*) w,
                                     w->output_channels, tiles * w->nr, 0);
}

/* ---- weights that a product packs (deferred.h) ---- */

struct ecx_deferred_weights {
  struct ecx_deferred deferred;
  struct ecx_weights weights;
  struct xnn_qs8_qc4w_packing_params packing_params;
  float channels[]; /* parameters of channels: those of another delegate may be gone */
};

static void ecx_pack_tile(const struct ecx_deferred* deferred, size_t first, size_t channels,
                          char* to) {
  ecx_pack_channels(&((const struct ecx_deferred_weights*) deferred)->weights, first, channels,
                    to);
}

/* Returns true if weights of an operator are deferred, and sets the size of their packing
 * parameters. */
static bool ecx_can_defer(enum xnn_operator_type type, size_t* params_bytes) {
  switch (type) {
    case xnn_operator_type_fully_connected_nc_f32: *params_bytes = 0; return true;
    case xnn_operator_type_fully_connected_nc_qd8_f16_qc8w:
    case xnn_operator_type_fully_connected_nc_qd8_f32_qc8w:
      *params_bytes = sizeof(struct xnn_qs8_packing_params);
      return true;
    case xnn_operator_type_fully_connected_nc_qd8_f16_qc4w:
    case xnn_operator_type_fully_connected_nc_qd8_f32_qc4w:
    case xnn_operator_type_fully_connected_nc_qd8_f16_qb4w:
    case xnn_operator_type_fully_connected_nc_qd8_f32_qb4w:
      *params_bytes = sizeof(struct xnn_qs8_qc4w_packing_params);
      return true;
    default: return false;
  }
}

/* Copies a float of each channel to *to. */
static const void* ecx_keep(const void* from, size_t count, float** to) {
  if (from == NULL) return NULL;
  void* copy = memcpy(*to, from, count * sizeof(float));
  *to += count;
  return copy;
}

/* Copies what may be gone when a product packs. */
static void ecx_keep_weights(struct ecx_deferred_weights* state, const struct ecx_weights* w,
                             size_t params_bytes) {
  const size_t n = w->output_channels;
  float* to = state->channels;
  state->weights = *w;
  state->weights.bias = ecx_keep(w->bias, n, &to);
  state->weights.kernel_scales = ecx_keep(w->kernel_scales, n, &to);
  state->weights.scales = ecx_keep(w->scales, n, &to);
  if (params_bytes != 0) {
    memcpy(&state->packing_params, w->packing_params, params_bytes);
    state->weights.packing_params = &state->packing_params;
  }
}

void* ecx_defer(xnn_weights_cache_t cache, const struct xnn_weights_cache_look_up_key* key,
                enum xnn_operator_type type, const struct ecx_weights* w, size_t total) {
#if XNN_ARCH_X86_64
  const size_t n = w->output_channels;
  size_t params_bytes = 0;
  void* packed = NULL;
  if (cache == NULL || cache->deferral == NULL || n * w->row_bits / 8 < ECX_LEAST_DEFERRED ||
      !ecx_can_defer(type, &params_bytes))
    return NULL;
  const size_t kept = (w->bias != NULL) + (w->kernel_scales != NULL) + (w->scales != NULL);
  struct ecx_deferred_weights* state = cache->deferral->defer(
      cache->context, key, total, sizeof *state + kept * n * sizeof(float), &packed);
  if (state == NULL) return NULL;
  ecx_keep_weights(state, w, params_bytes);
  const bool is_fast = type == xnn_operator_type_fully_connected_nc_f32 || ecx_packs_groups(w);
  state->deferred = (struct ecx_deferred){
    .pack = ecx_pack_tile, .filter = w->kernel, .scales = (const char*) w->block_scales,
    .packed = packed, .row_bits = w->row_bits, .scale_bytes = w->num_blocks * sizeof(uint16_t),
    .tile_bytes = w->nr * w->weights_stride, .nr = w->nr, .channels = n,
    .unpacked_products = is_fast ? ECX_UNPACKED_PRODUCTS : 0
  };
  return packed;
#else
  return NULL;
#endif
}
