/* Depthwise convolutions, included by depthwise.c once for each instruction set:
 * ECX_TARGET is its attribute, ECX_LANES the number of floats in a vector, ECX_SET(name) a name.
 * ECX_FLOAT_TAPS and ECX_BYTE_TAPS list numbers of taps.
 *
 * XNNPACK of 2024-11 has microkernels of up to 25 taps. It computes larger filters as general
 * convolutions with as many groups as channels, one channel at a time. Its kernels fetch the
 * weights again for each pixel. These have the interface of its own, and compute four pixels at
 * once. A tile is two vectors of channels; packed weights are the biases of a tile, a row for each
 * tap, and in int8 the scales. An input in the padding is `zero`, without an offset.
 */
typedef float ECX_SET(floats) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int32_t ECX_SET(ints) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int8_t ECX_SET(bytes) __attribute__((vector_size(ECX_LANES), aligned(1), may_alias));
#define ECX_INLINE static inline ECX_TARGET __attribute__((always_inline))

/* Computes `pixels` adjacent pixels, `pitch` bytes apart. `at` has the inputs of their taps: those
 * of the next pixel begin `step` further on. */
typedef void ECX_SET(pixels)(size_t pixels, size_t taps, size_t channels, const void* const* at,
                             size_t step, const void* weights, void* output, size_t pitch,
                             const void* params);

/* A vector of 16-bit numbers, which has a tile of channels. Interleaving two of them leaves the
 * channels in another order, which ECX_FIRST_HALF and ECX_OTHER_HALF undo for the sums. */
#if ECX_LANES == 16
#define ECX_WIDE __m512i
#define ECX_NOTHING _mm512_setzero_si512
#define ECX_LOAD(from, count) \
  _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((__mmask32) (((uint64_t) 1 << (count)) - 1), from))
#define ECX_LOW _mm512_unpacklo_epi16
#define ECX_HIGH _mm512_unpackhi_epi16
#define ECX_PAIRS _mm512_madd_epi16
#define ECX_ADD _mm512_add_epi32
#define ECX_MIN _mm512_min_ps
#define ECX_MAX _mm512_max_ps
#define ECX_FIRST_HALF(a, b) \
  _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), b)
#define ECX_OTHER_HALF(a, b) \
  _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), b)
#elif ECX_LANES == 8
ECX_INLINE __m256i ECX_SET(load)(const int8_t* from, size_t count) {
  int8_t part[16] = {0};
  if (count == 16) return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*) from));
  if (count == 8) return _mm256_cvtepi8_epi16(_mm_loadl_epi64((const __m128i*) from));
  __builtin_memcpy(part, from, count);
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*) part));
}
#define ECX_WIDE __m256i
#define ECX_NOTHING _mm256_setzero_si256
#define ECX_LOAD(from, count) ECX_SET(load)(from, count)
#define ECX_LOW _mm256_unpacklo_epi16
#define ECX_HIGH _mm256_unpackhi_epi16
#define ECX_PAIRS _mm256_madd_epi16
#define ECX_ADD _mm256_add_epi32
#define ECX_MIN _mm256_min_ps
#define ECX_MAX _mm256_max_ps
#define ECX_FIRST_HALF(a, b) _mm256_permute2x128_si256(a, b, 0x20)
#define ECX_OTHER_HALF(a, b) _mm256_permute2x128_si256(a, b, 0x31)
#endif

/* Clamps; a NaN stays one. */
ECX_INLINE ECX_SET(floats) ECX_SET(clamped)(ECX_SET(floats) x, float low, float high) {
  const ECX_SET(ints) under = x < low;
  x = (ECX_SET(floats)) ((under & (ECX_SET(ints)) ((ECX_SET(floats)){0} + low)) |
                         (~under & (ECX_SET(ints)) x));
  const ECX_SET(ints) over = x > high;
  return (ECX_SET(floats)) ((over & (ECX_SET(ints)) ((ECX_SET(floats)){0} + high)) |
                            (~over & (ECX_SET(ints)) x));
}

/* Loads and stores `count` floats: a vector, or with AVX-512 a part of one. */
ECX_INLINE ECX_SET(floats) ECX_SET(load_floats)(const float* from, size_t count) {
#if ECX_LANES == 16
  if (count < ECX_LANES) return _mm512_maskz_loadu_ps((__mmask16) ((1u << count) - 1), from);
#else
  (void) count;
#endif
  return *(const ECX_SET(floats)*) from;
}

ECX_INLINE void ECX_SET(store_floats)(float* to, ECX_SET(floats) x, size_t count) {
#if ECX_LANES == 16
  if (count < ECX_LANES) {
    _mm512_mask_storeu_ps(to, (__mmask16) ((1u << count) - 1), x);
    return;
  }
#else
  (void) count;
#endif
  *(ECX_SET(floats)*) to = x;
}

/* Computes `vectors` vectors of channels, `rest` of them in the last one, for `pixels` adjacent
 * pixels, so that each vector of weights is fetched once for all of them. */
ECX_INLINE void ECX_SET(float_block)(size_t pixels, size_t vectors, size_t rest, size_t taps,
                                     const void* const* at, size_t step, size_t c, const float* w,
                                     void* output, size_t pitch, float low, float high) {
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
        sum[p][v] += ECX_SET(load_floats)((const float*) at[p * step + k] + c + v * half,
                                          v + 1 < vectors ? half : rest) *
                     *(const ECX_SET(floats)*) (w + v * half);
  }
#pragma GCC unroll 4
  for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll 2
    for (size_t v = 0; v < vectors; v++)
      ECX_SET(store_floats)((float*) ((uintptr_t) output + p * pitch) + c + v * half,
                            ECX_SET(clamped)(sum[p][v], low, high),
                            v + 1 < vectors ? half : rest);
}

ECX_INLINE void ECX_SET(float_pixels)(size_t pixels, size_t taps, size_t channels,
                                      const void* const* at, size_t step, const void* weights,
                                      void* output, size_t pitch, const void* params) {
  const float low = ((const union xnn_f32_minmax_params*) params)->scalar.min;
  const float high = ((const union xnn_f32_minmax_params*) params)->scalar.max;
  const size_t half = ECX_LANES, tile = 2 * half;
  const float* w = weights;
  size_t c = 0;
  for (; c + tile <= channels; c += tile, w += (taps + 1) * tile)
    ECX_SET(float_block)(pixels, 2, half, taps, at, step, c, w, output, pitch, low, high);
#if ECX_LANES == 16
  const size_t rest = channels - c;
  if (rest > half)
    ECX_SET(float_block)(pixels, 2, rest - half, taps, at, step, c, w, output, pitch, low, high);
  else if (rest)
    ECX_SET(float_block)(pixels, 1, rest, taps, at, step, c, w, output, pitch, low, high);
#else
  size_t n = 0;
  if (c + half <= channels) {
    ECX_SET(float_block)(pixels, 1, half, taps, at, step, c, w, output, pitch, low, high);
    c += half;
    n = half;
  }
  for (; c < channels; c++, n++)
    for (size_t p = 0; p < pixels; p++) {
      float sum = w[n];
      for (size_t k = 0; k < taps; k++)
        sum += ((const float*) at[p * step + k])[c] * w[(k + 1) * tile + n];
      sum = sum < low ? low : sum;
      ((float*) ((uintptr_t) output + p * pitch))[c] = sum > high ? high : sum;
    }
#endif
}

#ifdef ECX_WIDE
/* What a sum is clamped to before its zero point is added, and what adds that and rounds to even:
 * an addition that leaves no bits for fractions. */
typedef struct {
  ECX_SET(floats) low, high, magic;
  ECX_SET(ints) excess;
} ECX_SET(bounds);

ECX_INLINE ECX_SET(bounds) ECX_SET(read_bounds)(const union xnn_qs8_qc8w_conv_minmax_params* p) {
  const int zero = p->fp32_scalar.output_zero_point;
  const ECX_SET(floats) none = {0};
  return (ECX_SET(bounds)){none + (float) (p->fp32_scalar.output_min - zero),
                           none + (float) (p->fp32_scalar.output_max - zero),
                           none + 12582912.0f, /* 1.5 * 2^23 */
                           (ECX_SET(ints)){0} + (0x4B400000 - zero)};
}

ECX_INLINE ECX_SET(bytes) ECX_SET(to_bytes)(ECX_SET(ints) sum, const float* scale,
                                            const ECX_SET(bounds)* bounds) {
  ECX_SET(floats) x = __builtin_convertvector(sum, ECX_SET(floats));
  x = ECX_MIN(ECX_MAX(x * *(const ECX_SET(floats)*) scale, bounds->low), bounds->high);
  return __builtin_convertvector((ECX_SET(ints)) (x + bounds->magic) - bounds->excess,
                                 ECX_SET(bytes));
}

/* Adds the products of two taps, as pairs of 16 bits: `low` and `high` have the weights of some
 * channels each, in the order of ECX_LOW and ECX_HIGH. */
ECX_INLINE void ECX_SET(add_pair)(ECX_WIDE sum[2], ECX_WIDE a, ECX_WIDE b, ECX_WIDE low,
                                  ECX_WIDE high) {
  sum[0] = ECX_ADD(sum[0], ECX_PAIRS(ECX_LOW(a, b), low));
  sum[1] = ECX_ADD(sum[1], ECX_PAIRS(ECX_HIGH(a, b), high));
}

/* Sums the products of all taps, two at a time. */
ECX_INLINE void ECX_SET(sum_taps)(ECX_SET(ints) sum[4][2], size_t pixels, size_t count, size_t taps,
                                  const void* const* at, size_t step, size_t c, const char* w) {
  const size_t tile = 2 * ECX_LANES;
  const ECX_SET(ints)* bias = (const ECX_SET(ints)*) w;
  const int8_t* row = (const int8_t*) (w + 4 * tile);
  ECX_WIDE total[4][2];
#pragma GCC unroll 4
  for (size_t p = 0; p < pixels; p++) total[p][0] = total[p][1] = ECX_NOTHING();
  for (size_t k = 0; k < taps; k += 2, row += 2 * tile) {
    const bool both = k + 1 < taps;
    const ECX_WIDE x = ECX_LOAD(row, tile), y = both ? ECX_LOAD(row + tile, tile) : ECX_NOTHING();
    const ECX_WIDE low = ECX_LOW(x, y), high = ECX_HIGH(x, y);
#pragma GCC unroll 4
    for (size_t p = 0; p < pixels; p++) {
      const void* const* from = at + p * step + k;
      ECX_SET(add_pair)(total[p], ECX_LOAD((const int8_t*) from[0] + c, count),
                        both ? ECX_LOAD((const int8_t*) from[1] + c, count) : ECX_NOTHING(), low,
                        high);
    }
  }
#pragma GCC unroll 4
  for (size_t p = 0; p < pixels; p++) {
    sum[p][0] = bias[0] + (ECX_SET(ints)) ECX_FIRST_HALF(total[p][0], total[p][1]);
    sum[p][1] = bias[1] + (ECX_SET(ints)) ECX_OTHER_HALF(total[p][0], total[p][1]);
  }
}

/* Computes `count` channels, at most a tile, for `pixels` adjacent pixels. */
ECX_INLINE void ECX_SET(byte_block)(size_t pixels, size_t count, size_t taps,
                                    const void* const* at, size_t step, size_t c, const char* w,
                                    void* output, size_t pitch, const ECX_SET(bounds)* bounds) {
  const size_t half = ECX_LANES, tile = 2 * half;
  const float* scale = (const float*) (w + (4 + taps) * tile);
  ECX_SET(ints) sum[4][2];
  ECX_SET(sum_taps)(sum, pixels, count, taps, at, step, c, w);
#pragma GCC unroll 4
  for (size_t p = 0; p < pixels; p++) {
    int8_t* to = (int8_t*) ((uintptr_t) output + p * pitch) + c, part[2 * ECX_LANES];
    int8_t* const all = count == tile ? to : part;
    *(ECX_SET(bytes)*) all = ECX_SET(to_bytes)(sum[p][0], scale, bounds);
    *(ECX_SET(bytes)*) (all + half) = ECX_SET(to_bytes)(sum[p][1], scale + half, bounds);
    if (count < tile) __builtin_memcpy(to, part, count);
  }
}

ECX_INLINE void ECX_SET(byte_pixels)(size_t pixels, size_t taps, size_t channels,
                                     const void* const* at, size_t step, const void* weights,
                                     void* output, size_t pitch, const void* params) {
  const size_t half = ECX_LANES, tile = 2 * half;
  const ECX_SET(bounds) bounds = ECX_SET(read_bounds)(params);
  const char* w = weights;
  size_t c = 0;
  for (; c + tile <= channels; c += tile, w += (8 + taps) * tile)
    ECX_SET(byte_block)(pixels, tile, taps, at, step, c, w, output, pitch, &bounds);
  if (channels - c == half)
    ECX_SET(byte_block)(pixels, half, taps, at, step, c, w, output, pitch, &bounds);
  else if (c < channels)
    ECX_SET(byte_block)(pixels, channels - c, taps, at, step, c, w, output, pitch, &bounds);
}
#endif

/* Computes a row with `pixels_of`, which computes adjacent pixels; an element has `size` bytes. */
ECX_INLINE void ECX_SET(row)(ECX_SET(pixels)* pixels_of, size_t size, size_t taps, size_t channels,
                             size_t width, const void** input, const void* weights, void* output,
                             intptr_t stride, size_t increment, size_t offset, const void* zero,
                             const void* params) {
  const size_t step = (size_t) stride / sizeof *input, pitch = channels * size + increment;
  const size_t most = step <= ECX_MAX_TAPS ? 4 : 1;
  const void* at[4 * ECX_MAX_TAPS];
  while (width) {
    const size_t pixels = width >= most ? most : width >= 2 ? 2 : 1;
    for (size_t k = 0; k < taps + (pixels - 1) * step; k++)
      at[k] = input[k] == zero ? zero : (const void*) ((uintptr_t) input[k] + offset);
    if (pixels == 4) pixels_of(4, taps, channels, at, step, weights, output, pitch, params);
    else if (pixels == 2) pixels_of(2, taps, channels, at, step, weights, output, pitch, params);
    else pixels_of(1, taps, channels, at, step, weights, output, pitch, params);
    input += pixels * step;
    output = (void*) ((uintptr_t) output + pixels * pitch);
    width -= pixels;
  }
}

#define ECX_KERNEL(kind, size, taps)                                                               \
  static ECX_TARGET void ECX_SET(kind##_##taps)(                                                   \
      size_t channels, size_t width, const void** input, const void* weights, void* output,        \
      intptr_t stride, size_t increment, size_t offset, const void* zero, const void* params) {    \
    ECX_SET(row)(ECX_SET(kind##_pixels), size, taps, channels, width, input, weights, output,      \
                 stride, increment, offset, zero, params);                                         \
  }
#define ECX_FLOAT_KERNEL(taps) ECX_KERNEL(float, sizeof(float), taps)
#define ECX_BYTE_KERNEL(taps) ECX_KERNEL(byte, 1, taps)
ECX_FLOAT_TAPS(ECX_FLOAT_KERNEL)
#ifdef ECX_WIDE
ECX_BYTE_TAPS(ECX_BYTE_KERNEL)
#endif
#undef ECX_KERNEL
#undef ECX_FLOAT_KERNEL
#undef ECX_BYTE_KERNEL

/* Sets configurations, one after another, for the rows of a list of taps. */
#define ECX_SET_CONFIG(kind, taps, member, function)                                               \
  memset(kind, 0, sizeof *kind);                                                                   \
  kind->channel_tile = kind->channel_subtile = 2 * ECX_LANES;                                      \
  kind->channel_round = 1;                                                                         \
  kind->primary_tile = taps;                                                                       \
  kind->minmax.unipass = ECX_SET(function##_##taps);                                               \
  kind++->init.member;
#define ECX_SET_FLOATS(taps)                                                                       \
  ECX_SET_CONFIG(floats, taps, f32 = xnn_init_f32_minmax_scalar_params, float)
#define ECX_SET_BYTES(taps)                                                                        \
  ECX_SET_CONFIG(bytes, taps, qs8_qc8w = xnn_init_qs8_qc8w_conv_minmax_fp32_scalar_params, byte)
static void ECX_SET(set_floats)(struct xnn_dwconv_config* floats) {
  ECX_FLOAT_TAPS(ECX_SET_FLOATS)
}
#ifdef ECX_WIDE
static void ECX_SET(set_bytes)(struct xnn_dwconv_config* bytes) { ECX_BYTE_TAPS(ECX_SET_BYTES) }
#endif
#undef ECX_SET_CONFIG
#undef ECX_SET_FLOATS
#undef ECX_SET_BYTES
#undef ECX_WIDE
#undef ECX_NOTHING
#undef ECX_LOAD
#undef ECX_LOW
#undef ECX_HIGH
#undef ECX_PAIRS
#undef ECX_ADD
#undef ECX_MIN
#undef ECX_MAX
#undef ECX_FIRST_HALF
#undef ECX_OTHER_HALF
#undef ECX_INLINE
#undef ECX_SET
#undef ECX_TARGET
#undef ECX_LANES
#undef ECX_FLOAT_TAPS
#undef ECX_BYTE_TAPS
