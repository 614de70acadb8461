/* Products of int8 with AVX512-VNNI, inserted into XNNPACK's gemm-config.c.
 *
 * XNNPACK of 2024-11 multiplies 7 rows by 16 columns, with each sum in two halves of eight bytes of
 * depth: joining them, and making bytes of each row alone, takes as long as a depth of 60 of
 * multiplication, and three input channels count as eight. Here a sum is whole, four bytes of depth
 * at a time, 7 rows meet up to four panels of 16 columns, and four vectors of sums become bytes
 * at once. The dot product takes unsigned inputs: 128 is added to each, which the packed biases
 * correct. A panel is 16 biases, the weights of 16 columns for each four of depth, 16 scales.
 */
#define ECX_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define ECX_INLINE static inline ECX_VNNI __attribute__((always_inline))

enum { ECX_ROWS = 7, ECX_PANELS = 4, ECX_COLUMNS = 16 };

/* The rows of an output and their inputs: `at` has their addresses, `pitch` for each tap. One that
 * is not `zero` is `offset` further on. `depth` bytes of a tap count, a multiple of four. */
struct ecx_product {
  const int8_t* const* at;
  size_t taps, pitch, depth, offset;
  const int8_t* zero;
  int8_t* output;
  size_t rows, columns, stride;
  float most; /* above the zero point */
  int zero_point, least;
};

/* Sums products; an instruction in assembly, because GCC 12 copies the sums of its intrinsic. */
ECX_INLINE void ecx_sum(const struct ecx_product* p, size_t rows, size_t panels, const char* w,
                        size_t panel, __m512i sum[ECX_ROWS][ECX_PANELS]) {
  const __m512i sign = _mm512_set1_epi8((char) 0x80);
#pragma GCC unroll 4
  for (size_t v = 0; v < panels; v++)
#pragma GCC unroll 7
    for (size_t r = 0; r < rows; r++) sum[r][v] = _mm512_loadu_si512(w + v * panel);
  w += 4 * ECX_COLUMNS;
  const int8_t* const* at = p->at;
  for (size_t tap = p->taps; tap; tap--, at += p->pitch) {
    const int8_t* from[ECX_ROWS];
#pragma GCC unroll 7
    for (size_t r = 0; r < rows; r++) from[r] = at[r] == p->zero ? at[r] : at[r] + p->offset;
    for (size_t k = 0; k < p->depth; k += 4, w += 4 * ECX_COLUMNS) {
      __m512i weights[ECX_PANELS];
#pragma GCC unroll 4
      for (size_t v = 0; v < panels; v++) weights[v] = _mm512_loadu_si512(w + v * panel);
#pragma GCC unroll 7
      for (size_t r = 0; r < rows; r++) {
        int32_t four;
        __builtin_memcpy(&four, from[r] + k, sizeof four);
        const __m512i x = _mm512_xor_si512(_mm512_set1_epi32(four), sign);
#pragma GCC unroll 4
        for (size_t v = 0; v < panels; v++)
          __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[r][v]) : "v"(x), "v"(weights[v]));
      }
    }
  }
}

/* Stores a quarter of a vector, at most `count` bytes of it. */
ECX_INLINE void ecx_store_quarter(int8_t* to, __m512i x, size_t quarter, size_t count) {
  const __m128i part = quarter == 0   ? _mm512_castsi512_si128(x)
                       : quarter == 1 ? _mm512_extracti32x4_epi32(x, 1)
                       : quarter == 2 ? _mm512_extracti32x4_epi32(x, 2)
                                      : _mm512_extracti32x4_epi32(x, 3);
  if (count >= ECX_COLUMNS) _mm_storeu_si128((__m128i*) to, part);
  else _mm_mask_storeu_epi8(to, (__mmask16) ((1u << count) - 1), part);
}

/* Stores four vectors of sums as bytes, from the vector `first` on of the rows' `panels` each. */
ECX_INLINE void ecx_store(const struct ecx_product* p, const __m512i four[4], size_t first,
                          size_t rows, size_t panels, size_t column) {
  const __m512i zero_point = _mm512_set1_epi16((short) p->zero_point);
  const __m512i order =
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(four[0], four[1]), zero_point);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(four[2], four[3]), zero_point);
  const __m512i bytes =
      _mm512_max_epi8(_mm512_packs_epi16(low, high), _mm512_set1_epi8((char) p->least));
  const __m512i x = _mm512_permutexvar_epi32(order, bytes);
  const size_t columns = p->columns - column;
  if (panels == 4 && columns >= 4 * ECX_COLUMNS) {
    if (first / 4 < p->rows) _mm512_storeu_si512(p->output + first / 4 * p->stride + column, x);
    return;
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    const size_t row = (first + i) / panels, at = ECX_COLUMNS * ((first + i) % panels);
    if (first + i < rows * panels && row < p->rows)
      ecx_store_quarter(p->output + row * p->stride + column + at, x, i, columns - at);
  }
}

/* Computes `rows` rows of `panels` panels, from `column` on. */
ECX_INLINE void ecx_block(const struct ecx_product* p, size_t rows, size_t panels, const char* w,
                          size_t panel, size_t column) {
  __m512i sum[ECX_ROWS][ECX_PANELS];
  __m512 scale[ECX_PANELS];
  ecx_sum(p, rows, panels, w, panel, sum);
  const __m512 most = _mm512_set1_ps(p->most);
#pragma GCC unroll 4
  for (size_t v = 0; v < panels; v++)
    scale[v] = _mm512_loadu_ps(w + (v + 1) * panel - 4 * ECX_COLUMNS);
#pragma GCC unroll 7
  for (size_t first = 0; first < rows * panels; first += 4) {
    __m512i four[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
      const size_t at = first + i < rows * panels ? first + i : first;
      const __m512 x = _mm512_cvtepi32_ps(sum[at / panels][at % panels]);
      four[i] = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_mul_ps(x, scale[at % panels]), most));
    }
    ecx_store(p, four, first, rows, panels, column);
  }
}

typedef void ecx_block_function(const struct ecx_product* p, const char* w, size_t panel,
                                size_t column);
#define ECX_BLOCK(rows, panels)                                                             \
  static ECX_VNNI __attribute__((noinline)) void ecx_block_##rows##_##panels(               \
      const struct ecx_product* p, const char* w, size_t panel, size_t column) {            \
    ecx_block(p, rows, panels, w, panel, column);                                           \
  }
#define ECX_BLOCKS(rows) ECX_BLOCK(rows, 1) ECX_BLOCK(rows, 2) ECX_BLOCK(rows, 3) ECX_BLOCK(rows, 4)
ECX_BLOCKS(1)
ECX_BLOCKS(2)
ECX_BLOCKS(4)
ECX_BLOCKS(7)
#define ECX_NAMES(rows) \
  {ecx_block_##rows##_1, ecx_block_##rows##_2, ecx_block_##rows##_3, ecx_block_##rows##_4}
static ecx_block_function* const ecx_blocks[4][ECX_PANELS] = {ECX_NAMES(1), ECX_NAMES(2),
                                                              ECX_NAMES(4), ECX_NAMES(7)};
#undef ECX_BLOCK
#undef ECX_BLOCKS
#undef ECX_NAMES

static void ecx_multiply(struct ecx_product* p, const char* w, const void* params) {
  const union xnn_qs8_qc8w_conv_minmax_params* bounds = params;
  p->zero_point = bounds->fp32_scalar.output_zero_point;
  p->least = bounds->fp32_scalar.output_min;
  p->most = (float) (bounds->fp32_scalar.output_max - p->zero_point);
  p->depth = round_up_po2(p->depth, 4);
  const size_t panel = ECX_COLUMNS * (8 + p->taps * p->depth);
  const size_t kind = p->rows > 4 ? 3 : p->rows > 2 ? 2 : p->rows - 1;
  for (size_t column = 0; column < p->columns; column += ECX_PANELS * ECX_COLUMNS) {
    const size_t panels = divide_round_up(p->columns - column, ECX_COLUMNS);
    ecx_blocks[kind][min(panels, ECX_PANELS) - 1](p, w, panel, column);
    w += ECX_PANELS * panel;
  }
}

/* XNNPACK's interface of products. A row beyond the last one is computed as the last one. */
static void ecx_gemm(size_t mr, size_t nc, size_t kc, const void* a, size_t a_stride,
                     const void* w, void* c, size_t cm_stride, size_t cn_stride,
                     const void* params) {
  const int8_t* at[ECX_ROWS];
  for (size_t r = 0; r < ECX_ROWS; r++) at[r] = (const int8_t*) a + min(r, mr - 1) * a_stride;
  struct ecx_product p = {.at = at, .taps = 1, .depth = kc, .output = c, .rows = mr, .columns = nc,
                          .stride = cm_stride};
  (void) cn_stride;
  ecx_multiply(&p, w, params);
}

static void ecx_convolve(size_t pitch, size_t mr, size_t nc, size_t kc, size_t ks, const void** a,
                         const void* w, void* c, size_t cm_stride, size_t a_offset,
                         const void* zero, const void* params) {
  struct ecx_product p = {.at = (const int8_t* const*) a, .taps = ks / (pitch * sizeof *a),
                          .pitch = pitch, .depth = kc, .offset = a_offset, .zero = zero,
                          .output = c, .rows = mr, .columns = nc, .stride = cm_stride};
  ecx_multiply(&p, w, params);
}

/* XNNPACK's interface of convolutions, for kernels of one and of seven rows. */
#define ECX_IGEMM(rows)                                                                       \
  static void ecx_igemm_##rows(size_t mr, size_t nc, size_t kc, size_t ks, const void** a,    \
                               const void* w, void* c, size_t cm_stride, size_t cn_stride,    \
                               size_t a_offset, const void* zero, const void* params) {       \
    (void) cn_stride;                                                                         \
    ecx_convolve(rows, mr, nc, kc, ks, a, w, c, cm_stride, a_offset, zero, params);           \
  }
ECX_IGEMM(1)
ECX_IGEMM(7)
#undef ECX_IGEMM

/* Packs the weights of a panel: `taps` times `depth` numbers for each of `count` columns. Products
 * with the inputs' 128 and their zero point are taken from the biases. */
static ECX_VNNI char* ecx_pack_panel(const int8_t* k, size_t count, size_t taps, size_t depth,
                                     const int32_t* bias, int32_t zero_point, char* to) {
  const size_t row = taps * depth;
  __m512i sums = _mm512_setzero_si512();
  char* const biases = to;
  to += 4 * ECX_COLUMNS;
  for (size_t tap = 0; tap < taps; tap++)
    for (size_t i = 0; i < depth; i += 4, to += 4 * ECX_COLUMNS) {
      const int8_t* from = k + tap * depth + i;
      int32_t part[ECX_COLUMNS] = {0};
      if (depth - i >= 4)
        for (size_t n = 0; n < count; n++) __builtin_memcpy(&part[n], from + n * row, 4);
      else
        for (size_t n = 0; n < count; n++) __builtin_memcpy(&part[n], from + n * row, depth - i);
      const __m512i x = _mm512_loadu_si512(part);
      sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), x);
      _mm512_storeu_si512(to, x);
    }
  const __mmask16 valid = (__mmask16) ((1u << count) - 1);
  const __m512i given = bias ? _mm512_maskz_loadu_epi32(valid, bias) : _mm512_setzero_si512();
  const __m512i excess = _mm512_mullo_epi32(sums, _mm512_set1_epi32(zero_point + 128));
  _mm512_storeu_si512(biases, _mm512_sub_epi32(given, excess));
  return to;
}

static void ecx_pack_goki(size_t g, size_t nc, size_t ks, size_t kc, size_t nr, size_t kr,
                          size_t sr, const void* k, const void* b, const void* scale,
                          void* packed_weights, size_t extra_bytes, const void* params) {
  const int32_t zero_point = ((const struct xnn_qs8_packing_params*) params)->input_zero_point;
  const int8_t* from = k;
  const int32_t* bias = b;
  char* to = packed_weights;
  (void) nr, (void) kr, (void) sr, (void) scale;
  for (; g; g--)
    for (size_t n = 0; n < nc; n += ECX_COLUMNS) {
      const size_t count = min(nc - n, ECX_COLUMNS);
      to = ecx_pack_panel(from, count, ks, kc, bias, zero_point, to) + extra_bytes;
      from += count * ks * kc;
      bias = bias ? bias + count : NULL;
    }
}

static void ecx_pack_goi(size_t g, size_t nc, size_t kc, size_t nr, size_t kr, size_t sr,
                         const void* k, const void* b, const void* scale, void* packed_weights,
                         size_t extra_bytes, const void* params) {
  ecx_pack_goki(g, nc, 1, kc, nr, kr, sr, k, b, scale, packed_weights, extra_bytes, params);
}

/* Replaces XNNPACK's kernels for AVX512-VNNI in a configuration. */
static void ecx_set_products(struct xnn_gemm_config* config) {
  config->minmax.gemm[XNN_MR_TO_INDEX(1)] = xnn_init_hmp_gemm_ukernel(ecx_gemm);
  config->minmax.gemm[XNN_MR_TO_INDEX(7)] = xnn_init_hmp_gemm_ukernel(ecx_gemm);
  config->minmax.igemm[XNN_MR_TO_INDEX(1)] = xnn_init_hmp_igemm_ukernel(ecx_igemm_1);
  config->minmax.igemm[XNN_MR_TO_INDEX(7)] = xnn_init_hmp_igemm_ukernel(ecx_igemm_7);
  config->pack_gemm_goi = ecx_pack_goi;
  config->pack_igemm_goki = ecx_pack_goki;
  config->log2_kr = 2;
}
#undef ECX_INLINE
#undef ECX_VNNI
