/* Depthwise convolutions, inserted into XNNPACK's dwconv-config.c once for each instruction set:
 * ECX_TARGET is its attribute, ECX_LANES the number of floats in a vector, ECX_SET(name) a name.
 *
 * XNNPACK of 2024-11 has microkernels of up to 25 taps. It computes larger filters (ECX_TAPS) as
 * general convolutions with as many groups as channels, one channel at a time. Its kernels for
 * filters of 3 x 3 and 5 x 5 (ECX_USUAL_TAPS) fetch the weights again for each pixel; those for
 * floats are replaced, too, on x86-64. These kernels have the interface of its own. A tile is two
 * vectors of channels; packed weights are the biases of a tile, a row for each tap, and in int8 the
 * scales. An input in the padding is `zero`, without an offset.
 */
typedef float ECX_SET(floats) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int32_t ECX_SET(ints) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int16_t ECX_SET(shorts) __attribute__((vector_size(2 * ECX_LANES)));
typedef int8_t ECX_SET(bytes) __attribute__((vector_size(ECX_LANES), aligned(1), may_alias));
#define ECX_INLINE static inline ECX_TARGET __attribute__((always_inline))

/* Clamps; a NaN stays one. */
ECX_INLINE ECX_SET(floats) ECX_SET(clamped)(ECX_SET(floats) x, float low, float high) {
  const ECX_SET(ints) under = x < low;
  x = (ECX_SET(floats)) ((under & (ECX_SET(ints)) ((ECX_SET(floats)){0} + low)) |
                         (~under & (ECX_SET(ints)) x));
  const ECX_SET(ints) over = x > high;
  return (ECX_SET(floats)) ((over & (ECX_SET(ints)) ((ECX_SET(floats)){0} + high)) |
                            (~over & (ECX_SET(ints)) x));
}

/* Computes `vectors` vectors of channels for `pixels` adjacent pixels, so that each vector of
 * weights is fetched once for all of them. `at` has the inputs of their taps: those of the next
 * pixel begin `step` further on. */
ECX_INLINE void ECX_SET(float_block)(size_t pixels, size_t vectors, size_t taps,
                                     const float* const* at, size_t step, size_t c, const float* w,
                                     float* output, size_t pitch, float low, float high) {
  const size_t half = ECX_LANES, tile = 2 * half;
  ECX_SET(floats) sum[4][2];
#pragma GCC unroll 4
  for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll 2
    for (size_t v = 0; v < vectors; v++) sum[p][v] = *(const ECX_SET(floats)*) (w + v * half);
  for (size_t k = 0; k < taps; k++) {
    w += tile;
#pragma GCC unroll 4
    for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll 2
      for (size_t v = 0; v < vectors; v++)
        sum[p][v] += *(const ECX_SET(floats)*) (at[p * step + k] + c + v * half) *
                     *(const ECX_SET(floats)*) (w + v * half);
  }
#pragma GCC unroll 4
  for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll 2
    for (size_t v = 0; v < vectors; v++)
      *(ECX_SET(floats)*) ((float*) ((uintptr_t) output + p * pitch) + c + v * half) =
          ECX_SET(clamped)(sum[p][v], low, high);
}

/* Computes `pixels` adjacent pixels, `pitch` bytes apart. */
ECX_INLINE void ECX_SET(float_pixels)(size_t pixels, size_t taps, size_t channels,
                                      const float* const* at, size_t step, const float* w,
                                      float* output, size_t pitch, float low, float high) {
  const size_t half = ECX_LANES, tile = 2 * half;
  size_t c = 0, n = 0;
  for (; c + tile <= channels; c += tile, w += (taps + 1) * tile)
    ECX_SET(float_block)(pixels, 2, taps, at, step, c, w, output, pitch, low, high);
  if (c + half <= channels) {
    ECX_SET(float_block)(pixels, 1, taps, at, step, c, w, output, pitch, low, high);
    c += half;
    n = half;
  }
  for (; c < channels; c++, n++)
    for (size_t p = 0; p < pixels; p++) {
      float sum = w[n];
      for (size_t k = 0; k < taps; k++) sum += at[p * step + k][c] * w[(k + 1) * tile + n];
      sum = sum < low ? low : sum;
      ((float*) ((uintptr_t) output + p * pitch))[c] = sum > high ? high : sum;
    }
}

ECX_INLINE void ECX_SET(float_row)(size_t taps, size_t channels, size_t width, const float** input,
                                   const float* weights, float* output, intptr_t stride,
                                   size_t increment, size_t offset, const float* zero, float low,
                                   float high) {
  const size_t step = (size_t) stride / sizeof *input;
  const size_t pitch = channels * sizeof *output + increment;
  const size_t most = step <= ECX_MOST_TAPS ? 4 : 1;
  const float* at[4 * ECX_MOST_TAPS];
  while (width) {
    const size_t pixels = width >= most ? most : width >= 2 && most > 1 ? 2 : 1;
    for (size_t k = 0; k < taps + (pixels - 1) * step; k++)
      at[k] = input[k] == zero ? zero : (const float*) ((uintptr_t) input[k] + offset);
    if (pixels == 4)
      ECX_SET(float_pixels)(4, taps, channels, at, step, weights, output, pitch, low, high);
    else if (pixels == 2)
      ECX_SET(float_pixels)(2, taps, channels, at, step, weights, output, pitch, low, high);
    else
      ECX_SET(float_pixels)(1, taps, channels, at, step, weights, output, pitch, low, high);
    input += pixels * step;
    output = (float*) ((uintptr_t) output + pixels * pitch);
    width -= pixels;
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

#define ECX_FLOAT_KERNEL(taps)                                                                     \
  static ECX_TARGET void ECX_SET(float_##taps)(                                                    \
      size_t channels, size_t width, const float** input, const float* weights, float* output,     \
      intptr_t stride, size_t increment, size_t offset, const float* zero,                         \
      const union xnn_f32_minmax_params* params) {                                                 \
    ECX_SET(float_row)(taps, channels, width, input, weights, output, stride, increment, offset,   \
                       zero, params->scalar.min, params->scalar.max);                              \
  }
#define ECX_BYTE_KERNEL(taps)                                                                      \
  static ECX_TARGET void ECX_SET(byte_##taps)(                                                     \
      size_t channels, size_t width, const int8_t** input, const void* weights, int8_t* output,    \
      intptr_t stride, size_t increment, size_t offset, const int8_t* zero,                        \
      const union xnn_qs8_qc8w_conv_minmax_params* params) {                                       \
    ECX_SET(byte_row)(taps, channels, width, input, weights, output, stride, increment, offset,    \
                      zero, params);                                                               \
  }
ECX_USUAL_TAPS(ECX_FLOAT_KERNEL)
ECX_TAPS(ECX_FLOAT_KERNEL)
ECX_TAPS(ECX_BYTE_KERNEL)
#undef ECX_FLOAT_KERNEL
#undef ECX_BYTE_KERNEL

/* Sets configurations, one after another, for the rows of a list of taps. */
#define ECX_SET_CONFIG(kind, taps, member, function)                                               \
  memset(kind, 0, sizeof *kind);                                                                   \
  kind->channel_tile = kind->channel_subtile = 2 * ECX_LANES;                                      \
  kind->channel_round = 1;                                                                         \
  kind->primary_tile = taps;                                                                       \
  kind->minmax.unipass = (xnn_dwconv_unipass_ukernel_fn) ECX_SET(function##_##taps);               \
  kind++->init.member;
#define ECX_SET_FLOATS(taps)                                                                       \
  ECX_SET_CONFIG(floats, taps, f32 = xnn_init_f32_minmax_scalar_params, float)
#define ECX_SET_BYTES(taps)                                                                        \
  ECX_SET_CONFIG(bytes, taps, qs8_qc8w = xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params, byte)
static void ECX_SET(set_usual)(struct xnn_dwconv_config* floats) { ECX_USUAL_TAPS(ECX_SET_FLOATS) }
static void ECX_SET(set_floats)(struct xnn_dwconv_config* floats) { ECX_TAPS(ECX_SET_FLOATS) }
static void ECX_SET(set_bytes)(struct xnn_dwconv_config* bytes) { ECX_TAPS(ECX_SET_BYTES) }
#undef ECX_SET_CONFIG
#undef ECX_SET_FLOATS
#undef ECX_SET_BYTES
#undef ECX_INLINE
#undef ECX_SET
#undef ECX_TARGET
#undef ECX_LANES
