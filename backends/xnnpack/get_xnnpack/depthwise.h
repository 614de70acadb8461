/* Depthwise convolutions of more than 25 taps, inserted into XNNPACK's dwconv-config.c once for
 * each instruction set: ECX_TARGET is its attribute, ECX_LANES the number of floats in a vector,
 * ECX_SET(name) a name.
 *
 * XNNPACK of 2024-11 has microkernels of up to 25 taps. It computes larger filters as general
 * convolutions with as many groups as channels, one channel at a time. These kernels have the
 * interface of its own. A tile is two vectors of channels; packed weights are the biases of a tile,
 * a row for each tap, and in int8 the scales. An input in the padding is `zero`, without an offset.
 */
typedef float ECX_SET(floats) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int32_t ECX_SET(ints) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int16_t ECX_SET(shorts) __attribute__((vector_size(2 * ECX_LANES)));
typedef int8_t ECX_SET(bytes) __attribute__((vector_size(ECX_LANES), aligned(1), may_alias));
#define ECX_INLINE static inline ECX_TARGET __attribute__((always_inline))

ECX_INLINE ECX_SET(floats) ECX_SET(product)(const float* a, const float* b) {
  return *(const ECX_SET(floats)*) a * *(const ECX_SET(floats)*) b;
}

/* Clamps; a NaN stays one. */
ECX_INLINE ECX_SET(floats) ECX_SET(clamped)(ECX_SET(floats) x, float low, float high) {
  const ECX_SET(ints) under = x < low;
  x = (ECX_SET(floats)) ((under & (ECX_SET(ints)) ((ECX_SET(floats)){0} + low)) |
                         (~under & (ECX_SET(ints)) x));
  const ECX_SET(ints) over = x > high;
  return (ECX_SET(floats)) ((over & (ECX_SET(ints)) ((ECX_SET(floats)){0} + high)) |
                            (~over & (ECX_SET(ints)) x));
}

/* Computes a pixel. Even and odd taps have their own sums, whose additions overlap. */
ECX_INLINE void ECX_SET(float_pixel)(size_t taps, size_t channels, const float* const* at,
                                     const float* w, float* output, float low, float high) {
  const size_t half = ECX_LANES, tile = 2 * half;
  size_t c = 0;
  for (; c + tile <= channels; c += tile) {
    ECX_SET(floats) a = *(const ECX_SET(floats)*) w, b = *(const ECX_SET(floats)*) (w + half);
    ECX_SET(floats) odd_a = {0}, odd_b = {0};
    w += tile;
    for (size_t k = 0; k + 1 < taps; k += 2, w += 2 * tile) {
      a += ECX_SET(product)(at[k] + c, w);
      b += ECX_SET(product)(at[k] + c + half, w + half);
      odd_a += ECX_SET(product)(at[k + 1] + c, w + tile);
      odd_b += ECX_SET(product)(at[k + 1] + c + half, w + tile + half);
    }
    if (taps % 2) {
      a += ECX_SET(product)(at[taps - 1] + c, w);
      b += ECX_SET(product)(at[taps - 1] + c + half, w + half);
      w += tile;
    }
    *(ECX_SET(floats)*) (output + c) = ECX_SET(clamped)(a + odd_a, low, high);
    *(ECX_SET(floats)*) (output + c + half) = ECX_SET(clamped)(b + odd_b, low, high);
  }
  for (size_t n = 0; c < channels; c++, n++) {
    float sum = w[n];
    for (size_t k = 0; k < taps; k++)
      sum += at[k][c] * w[(k + 1) * tile + n];
    sum = sum < low ? low : sum;
    output[c] = sum > high ? high : sum;
  }
}

ECX_INLINE void ECX_SET(float_row)(size_t taps, size_t channels, size_t width, const float** input,
                                   const float* weights, float* output, intptr_t stride,
                                   size_t increment, size_t offset, const float* zero, float low,
                                   float high) {
  for (const float* at[ECX_MOST_TAPS]; width; width--) {
    for (size_t k = 0; k < taps; k++)
      at[k] = input[k] == zero ? zero : (const float*) ((uintptr_t) input[k] + offset);
    ECX_SET(float_pixel)(taps, channels, at, weights, output, low, high);
    input = (const float**) ((uintptr_t) input + stride);
    output = (float*) ((uintptr_t) (output + channels) + increment);
  }
}

ECX_INLINE ECX_SET(ints) ECX_SET(byte_product)(const int8_t* a, const int8_t* b) {
  const ECX_SET(shorts) wide = __builtin_convertvector(*(const ECX_SET(bytes)*) a, ECX_SET(shorts));
  return __builtin_convertvector(
      wide * __builtin_convertvector(*(const ECX_SET(bytes)*) b, ECX_SET(shorts)), ECX_SET(ints));
}

/* Scales, clamps, and rounds to even by an addition that leaves no bits for fractions. */
ECX_INLINE void ECX_SET(store_bytes)(ECX_SET(ints) sum, const float* scale, int8_t* output,
                                     const union xnn_qs8_qc8w_conv_minmax_params* p) {
  const int zero = p->fp32_scalar.output_zero_point;
  const float magic = 12582912.0f; /* 1.5 * 2^23 */
  ECX_SET(floats) x = __builtin_convertvector(sum, ECX_SET(floats));
  x *= *(const ECX_SET(floats)*) scale;
  x = ECX_SET(clamped)(x, (float) (p->fp32_scalar.output_min - zero),
                       (float) (p->fp32_scalar.output_max - zero));
  const ECX_SET(ints) rounded = (ECX_SET(ints)) (x + magic) - (0x4B400000 - zero);
  *(ECX_SET(bytes)*) output = __builtin_convertvector(rounded, ECX_SET(bytes));
}

ECX_INLINE void ECX_SET(byte_pixel)(size_t taps, size_t channels, const int8_t* const* at,
                                    const char* w, int8_t* output,
                                    const union xnn_qs8_qc8w_conv_minmax_params* params) {
  const size_t half = ECX_LANES, tile = 2 * half;
  for (size_t c = 0; c < channels; c += tile) {
    const int8_t* row = (const int8_t*) (w + 4 * tile);
    ECX_SET(ints) a = *(const ECX_SET(ints)*) w, b = *(const ECX_SET(ints)*) (w + 4 * half);
    int8_t last[2][2 * ECX_LANES] = {{0}}; /* channels of an incomplete tile, and their results */
    const size_t count = channels - c < tile ? channels - c : tile;
    for (size_t k = 0; k < taps; k++, row += tile) {
      const int8_t* from = at[k] + c;
      if (count < tile) {
        __builtin_memcpy(last[0], from, count);
        from = last[0];
      }
      a += ECX_SET(byte_product)(from, row);
      b += ECX_SET(byte_product)(from + half, row + half);
    }
    int8_t* to = count < tile ? last[1] : output + c;
    ECX_SET(store_bytes)(a, (const float*) row, to, params);
    ECX_SET(store_bytes)(b, (const float*) row + half, to + half, params);
    if (count < tile)
      __builtin_memcpy(output + c, to, count);
    w = (const char*) row + 4 * tile;
  }
}

ECX_INLINE void ECX_SET(byte_row)(size_t taps, size_t channels, size_t width, const int8_t** input,
                                  const void* weights, int8_t* output, intptr_t stride,
                                  size_t increment, size_t offset, const int8_t* zero,
                                  const union xnn_qs8_qc8w_conv_minmax_params* params) {
  for (const int8_t* at[ECX_MOST_TAPS]; width; width--) {
    for (size_t k = 0; k < taps; k++)
      at[k] = input[k] == zero ? zero : (const int8_t*) ((uintptr_t) input[k] + offset);
    ECX_SET(byte_pixel)(taps, channels, at, weights, output, params);
    input = (const int8_t**) ((uintptr_t) input + stride);
    output = (int8_t*) ((uintptr_t) (output + channels) + increment);
  }
}

#define ECX_KERNELS(taps)                                                                          \
  static ECX_TARGET void ECX_SET(float_##taps)(                                                    \
      size_t channels, size_t width, const float** input, const float* weights, float* output,     \
      intptr_t stride, size_t increment, size_t offset, const float* zero,                         \
      const union xnn_f32_minmax_params* params) {                                                 \
    ECX_SET(float_row)(taps, channels, width, input, weights, output, stride, increment, offset,   \
                       zero, params->scalar.min, params->scalar.max);                              \
  }                                                                                                \
  static ECX_TARGET void ECX_SET(byte_##taps)(                                                     \
      size_t channels, size_t width, const int8_t** input, const void* weights, int8_t* output,    \
      intptr_t stride, size_t increment, size_t offset, const int8_t* zero,                        \
      const union xnn_qs8_qc8w_conv_minmax_params* params) {                                       \
    ECX_SET(byte_row)(taps, channels, width, input, weights, output, stride, increment, offset,    \
                      zero, params);                                                               \
  }
ECX_TAPS(ECX_KERNELS)
#undef ECX_KERNELS

static void ECX_SET(add)(struct xnn_dwconv_config* floats, struct xnn_dwconv_config* bytes) {
  struct xnn_dwconv_config common = {0};
  common.channel_tile = common.channel_subtile = 2 * ECX_LANES;
  common.channel_round = 1;
#define ECX_ADD(taps)                                                                              \
  common.primary_tile = taps;                                                                      \
  if (floats) {                                                                                    \
    *floats = common;                                                                              \
    floats->minmax.unipass = (xnn_dwconv_unipass_ukernel_fn) ECX_SET(float_##taps);                \
    floats++->init.f32 = xnn_init_f32_minmax_scalar_params;                                        \
  }                                                                                                \
  if (bytes) {                                                                                     \
    *bytes = common;                                                                               \
    bytes->minmax.unipass = (xnn_dwconv_unipass_ukernel_fn) ECX_SET(byte_##taps);                  \
    bytes++->init.qs8_qc8w = xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params;                     \
  }
  ECX_TAPS(ECX_ADD)
#undef ECX_ADD
}
#undef ECX_INLINE
#undef ECX_SET
#undef ECX_TARGET
#undef ECX_LANES
