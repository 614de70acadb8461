/* Depthwise convolutions of int8 with AVX512-VNNI, included by depthwise.c for ECX_CHANNELS of 64
 * and of 32, with ECX_SET(name), the vectors' types and ECX_OP(name), their functions.
 *
 * A dot product of four bytes needs the inputs of a channel side by side: bytes, then pairs, of up
 * to four taps are interleaved. That leaves a vector's channels in an order which packing them as
 * bytes undoes. Taps of 3 x 3 are three columns, each interleaved once for all pixels that have
 * it. The interface is XNNPACK's; a tile is 64 channels: their biases, a row for each tap, scales.
 */
#define ECX_INLINE static inline ECX_TARGET __attribute__((always_inline))
#define ECX_DOT(sum, x, weights) \
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "vm"(weights))

/* The inputs or weights of up to four taps: a vector for each quarter of the channels. */
typedef struct {
  ECX_VECTOR quarter[4];
} ECX_SET(taps);

/* What a row of pixels shares. The inputs' 128 is taken from the biases. */
typedef struct {
  const void* zero;
  size_t offset, channel, count;
  ECX_MASK mask;
  ECX_VECTOR bias[4], zero_point, least;
  ECX_FLOATS scale[4], most;
} ECX_SET(tile);

ECX_INLINE ECX_SET(taps) ECX_SET(interleave)(const ECX_VECTOR x[4]) {
  const ECX_VECTOR a = ECX_OP(unpacklo_epi8)(x[0], x[1]), b = ECX_OP(unpackhi_epi8)(x[0], x[1]);
  const ECX_VECTOR c = ECX_OP(unpacklo_epi8)(x[2], x[3]), d = ECX_OP(unpackhi_epi8)(x[2], x[3]);
  return (ECX_SET(taps)){{ECX_OP(unpacklo_epi16)(a, c), ECX_OP(unpackhi_epi16)(a, c),
                          ECX_OP(unpacklo_epi16)(b, d), ECX_OP(unpackhi_epi16)(b, d)}};
}

/* Returns the inputs of `count` taps, plus 128. */
ECX_INLINE ECX_SET(taps) ECX_SET(inputs)(const ECX_SET(tile)* tile, const void* const* at,
                                         size_t count) {
  ECX_VECTOR x[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    x[i] = ECX_OP(set1_epi8)((char) 0x80);
    if (i >= count) continue;
    const uintptr_t from = (uintptr_t) at[i] + (at[i] == tile->zero ? 0 : tile->offset);
    x[i] ^= ECX_OP(maskz_loadu_epi8)(tile->mask, (const void*) (from + tile->channel));
  }
  return ECX_SET(interleave)(x);
}

ECX_INLINE ECX_SET(taps) ECX_SET(weights)(const char* row, size_t count) {
  ECX_VECTOR x[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    if (i < count) __builtin_memcpy(&x[i], row + 64 * i, sizeof x[i]);
    else x[i] = (ECX_VECTOR){0};
  }
  return ECX_SET(interleave)(x);
}

/* Returns four numbers of each sixteen. */
ECX_INLINE ECX_VECTOR ECX_SET(quarter)(const char* from) {
  ECX_VECTOR x = {0};
#pragma GCC unroll 4
  for (size_t i = 0; i < ECX_CHANNELS / 16; i++)
    __builtin_memcpy((char*) &x + 16 * i, from + 64 * i, 16);
  return x;
}

ECX_INLINE void ECX_SET(start)(ECX_SET(tile)* tile, const ECX_SET(taps)* weights, size_t groups,
                               size_t taps, const char* w, const void* params) {
  const union xnn_qs8_qc8w_conv_minmax_params* bounds = params;
  const int zero_point = bounds->fp32_scalar.output_zero_point;
  tile->zero_point = ECX_OP(set1_epi16)((short) zero_point);
  tile->least = ECX_OP(set1_epi8)((char) bounds->fp32_scalar.output_min);
  tile->most = ECX_OP(set1_ps)((float) (bounds->fp32_scalar.output_max - zero_point));
  tile->mask = (ECX_MASK) (~(uint64_t) 0 >> (64 - tile->count));
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    ECX_VECTOR all = {0};
    for (size_t g = 0; g < groups; g++)
      ECX_DOT(all, ECX_OP(set1_epi8)((char) 0x80), weights[g].quarter[i]);
    tile->bias[i] = ECX_OP(sub_epi32)(ECX_SET(quarter)(w + 16 * i), all);
    tile->scale[i] = (ECX_FLOATS) ECX_SET(quarter)(w + 64 * (4 + taps) + 16 * i);
  }
}

/* Stores sums as bytes. */
ECX_INLINE void ECX_SET(finish)(const ECX_SET(tile)* tile, const ECX_VECTOR sum[4], void* output) {
  ECX_VECTOR x[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    const ECX_FLOATS y = ECX_OP(mul_ps)(ECX_OP(cvtepi32_ps)(sum[i]), tile->scale[i]);
    x[i] = ECX_OP(cvtps_epi32)(ECX_OP(min_ps)(y, tile->most));
  }
  const ECX_VECTOR low = ECX_OP(adds_epi16)(ECX_OP(packs_epi32)(x[0], x[1]), tile->zero_point);
  const ECX_VECTOR high = ECX_OP(adds_epi16)(ECX_OP(packs_epi32)(x[2], x[3]), tile->zero_point);
  const ECX_VECTOR bytes = ECX_OP(max_epi8)(ECX_OP(packs_epi16)(low, high), tile->least);
  int8_t* to = (int8_t*) output + tile->channel;
  if (tile->count == ECX_CHANNELS) __builtin_memcpy(to, &bytes, sizeof bytes);
  else ECX_OP(mask_storeu_epi8)(to, tile->mask, bytes);
}

/* Computes a pixel of three columns, of which the last `fresh` are read. */
ECX_INLINE void ECX_SET(three)(const ECX_SET(tile)* tile, size_t fresh, const void* const* at,
                               ECX_SET(taps)* a, ECX_SET(taps)* b, ECX_SET(taps)* c,
                               const ECX_SET(taps) weights[3], void* output) {
  ECX_VECTOR sum[4];
  if (fresh > 2) *a = ECX_SET(inputs)(tile, at, 3);
  if (fresh > 1) *b = ECX_SET(inputs)(tile, at + 3, 3);
  *c = ECX_SET(inputs)(tile, at + 6, 3);
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    sum[i] = tile->bias[i];
    ECX_DOT(sum[i], a->quarter[i], weights[0].quarter[i]);
    ECX_DOT(sum[i], b->quarter[i], weights[1].quarter[i]);
    ECX_DOT(sum[i], c->quarter[i], weights[2].quarter[i]);
  }
  ECX_SET(finish)(tile, sum, output);
}

/* Computes a row of pixels with nine taps: the columns of a pixel are those of the one before,
 * `fresh` further on. */
ECX_INLINE void ECX_SET(nine)(ECX_SET(tile) tile, size_t fresh, size_t width,
                              const void* const* at, size_t step, const char* w, char* output,
                              size_t pitch, const void* params) {
  ECX_SET(taps) weights[3], a = {0}, b = {0}, c;
#pragma GCC unroll 3
  for (size_t i = 0; i < 3; i++) weights[i] = ECX_SET(weights)(w + 256 + 64 * 3 * i, 3);
  ECX_SET(start)(&tile, weights, 3, 9, w, params);
  if (fresh < 3) a = ECX_SET(inputs)(&tile, at, 3);
  if (fresh < 2) b = ECX_SET(inputs)(&tile, at + 3, 3);
  while (width--) {
    ECX_SET(three)(&tile, fresh, at, &a, &b, &c, weights, output);
    at += step, output += pitch;
    if (fresh == 2) a = c;
    if (fresh > 1) continue;
    if (!width--) return;
    ECX_SET(three)(&tile, fresh, at, &b, &c, &a, weights, output);
    at += step, output += pitch;
    if (!width--) return;
    ECX_SET(three)(&tile, fresh, at, &c, &a, &b, weights, output);
    at += step, output += pitch;
  }
}

/* Computes a row of pixels with any number of taps. */
static ECX_TARGET __attribute__((noinline)) void ECX_SET(any)(
    ECX_SET(tile) tile, size_t taps, size_t width, const void* const* at, size_t step,
    const char* w, char* output, size_t pitch, const void* params) {
  ECX_SET(taps) weights[(ECX_MAX_TAPS + 3) / 4];
  const size_t groups = taps / 4, rest = taps % 4;
  for (size_t g = 0; g < groups; g++) weights[g] = ECX_SET(weights)(w + 256 + 256 * g, 4);
  if (rest) weights[groups] = ECX_SET(weights)(w + 256 + 256 * groups, rest);
  ECX_SET(start)(&tile, weights, groups + !!rest, taps, w, params);
  for (; width; width--, at += step, output += pitch) {
    ECX_VECTOR sum[4] = {tile.bias[0], tile.bias[1], tile.bias[2], tile.bias[3]};
    for (size_t g = 0; g < groups; g++) {
      const ECX_SET(taps) x = ECX_SET(inputs)(&tile, at + 4 * g, 4);
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; i++) ECX_DOT(sum[i], x.quarter[i], weights[g].quarter[i]);
    }
    if (rest) {
      const ECX_SET(taps) x = ECX_SET(inputs)(&tile, at + 4 * groups, rest);
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; i++) ECX_DOT(sum[i], x.quarter[i], weights[groups].quarter[i]);
    }
    ECX_SET(finish)(&tile, sum, output);
  }
}

#define ECX_NINE(fresh)                                                                          \
  static ECX_TARGET __attribute__((noinline)) void ECX_SET(nine_##fresh)(                          \
      ECX_SET(tile) tile, size_t width, const void* const* at, size_t step, const char* w,       \
      char* output, size_t pitch, const void* params) {                                          \
    ECX_SET(nine)(tile, fresh, width, at, step, w, output, pitch, params);                       \
  }
ECX_NINE(1)
ECX_NINE(2)
ECX_NINE(3)
#undef ECX_NINE

/* Computes a row of `count` channels from `channel` on, at most ECX_CHANNELS. */
static void ECX_SET(row)(size_t channel, size_t count, size_t taps, size_t width,
                         const void* const* at, size_t step, const char* w, char* output,
                         size_t pitch, size_t offset, const void* zero, const void* params) {
  ECX_SET(tile) tile = {.zero = zero, .offset = offset, .channel = channel, .count = count};
  if (taps != 9) ECX_SET(any)(tile, taps, width, at, step, w, output, pitch, params);
  else if (step == 3) ECX_SET(nine_1)(tile, width, at, step, w, output, pitch, params);
  else if (step == 6) ECX_SET(nine_2)(tile, width, at, step, w, output, pitch, params);
  else ECX_SET(nine_3)(tile, width, at, step, w, output, pitch, params);
}

#if ECX_CHANNELS == 32
/* Computes a row of pixels; the last tile has vectors of 32 channels if they suffice. */
static void ecx_vnni_row(size_t taps, size_t channels, size_t width, const void** input,
                         const void* weights, void* output, intptr_t stride, size_t increment,
                         size_t offset, const void* zero, const void* params) {
  const size_t step = (size_t) stride / sizeof *input, pitch = channels + increment;
  const char* w = weights;
  for (size_t c = 0; c < channels; c += 64, w += 64 * (8 + taps)) {
    const size_t count = min(channels - c, 64);
    (count > 32 ? ecx_vnni64_row : ecx_vnni32_row)(c, count, taps, width,
                                                   (const void* const*) input, step, w, output,
                                                   pitch, offset, zero, params);
  }
}

#define ECX_KERNEL(taps)                                                                          \
  static void ecx_vnni_##taps(size_t channels, size_t width, const void** input,                  \
                              const void* weights, void* output, intptr_t stride,                 \
                              size_t increment, size_t offset, const void* zero,                  \
                              const void* params) {                                               \
    ecx_vnni_row(taps, channels, width, input, weights, output, stride, increment, offset, zero,  \
                 params);                                                                         \
  }
ECX_BYTE_TAPS(ECX_KERNEL)
#undef ECX_KERNEL

/* Sets configurations, one after another, for the rows of a list of taps. */
static void ecx_vnni_set_bytes(struct xnn_dwconv_config* bytes) {
#define ECX_SET_BYTES(taps)                                            \
  bytes->channel_tile = bytes->channel_subtile = 64;                   \
  bytes++->minmax.unipass = ecx_vnni_##taps;
  ECX_BYTE_TAPS(ECX_SET_BYTES)
#undef ECX_SET_BYTES
}
#endif
#undef ECX_INLINE
#undef ECX_DOT
#undef ECX_TARGET
#undef ECX_CHANNELS
#undef ECX_VECTOR
#undef ECX_FLOATS
#undef ECX_MASK
#undef ECX_OP
#undef ECX_SET
#undef ECX_BYTE_TAPS
