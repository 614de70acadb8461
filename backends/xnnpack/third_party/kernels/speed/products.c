/* Products of int8 with AVX512-VNNI.
 *
 * XNNPACK of 2024-11 multiplies 7 rows by 16 columns, with each sum in two halves of eight bytes of
 * depth: joining them, and making bytes of each row alone, takes as long as a depth of 60 of
 * multiplication, and three input channels count as eight. Here a sum is whole, four bytes of depth
 * at a time, 7 rows meet up to four panels of 16 columns, and four vectors of sums become bytes
 * at once. The dot product takes unsigned inputs: 128 is added to each, which the packed biases
 * correct. A panel is 16 biases, the weights of 16 columns for each four of depth, 16 scales.
 *
 * Convolutions whose groups have 16 inputs and 16 outputs multiply four groups at once: a vector
 * has the inputs of all four, and a quarter of it meets the weights of its group for four outputs.
 * For the caller such groups are one, whose inputs move with the columns (`ecx_step`).
 */
#include "executorch_c/corrections/hook.h"
#include "executorch_c/speed/ecx.h"
#include "xnnpack/gemm.h"
#include "xnnpack/math.h"
#include "xnnpack/microfnptr.h"
#include "xnnpack/microparams.h"
#include "xnnpack/operator.h"
#include "xnnpack/pack.h"

#if XNN_ARCH_X86_64
#include <immintrin.h>

#define ECX_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define ECX_INLINE static inline ECX_VNNI __attribute__((always_inline))

enum { ECX_ROWS = 7, ECX_PANELS = 4, ECX_COLUMNS = 16 };
enum { ECX_GROUP_ROWS = 4, ECX_GROUPS = 4, ECX_JOINED = ECX_GROUPS * ECX_COLUMNS, ECX_TAPS = 64 };

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

/* Returns sums, already scaled, as bytes: quarter by quarter, four of each vector. */
ECX_INLINE __m512i ecx_bytes(const struct ecx_product* p, const __m512i four[4]) {
  const __m512i zero_point = _mm512_set1_epi16((short) p->zero_point);
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(four[0], four[1]), zero_point);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(four[2], four[3]), zero_point);
  return _mm512_max_epi8(_mm512_packs_epi16(low, high), _mm512_set1_epi8((char) p->least));
}

ECX_INLINE __m512i ecx_scale(const struct ecx_product* p, __m512i sum, __m512 scale) {
  const __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
  return _mm512_cvtps_epi32(_mm512_min_ps(x, _mm512_set1_ps(p->most)));
}

/* Stores four vectors of sums as bytes, from the vector `first` on of the rows' `panels` each. */
ECX_INLINE void ecx_store(const struct ecx_product* p, const __m512i four[4], size_t first,
                          size_t rows, size_t panels, size_t column) {
  const __m512i order =
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i x = _mm512_permutexvar_epi32(order, ecx_bytes(p, four));
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
#pragma GCC unroll 4
  for (size_t v = 0; v < panels; v++)
    scale[v] = _mm512_loadu_ps(w + (v + 1) * panel - 4 * ECX_COLUMNS);
#pragma GCC unroll 7
  for (size_t first = 0; first < rows * panels; first += 4) {
    __m512i four[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
      const size_t at = first + i < rows * panels ? first + i : first;
      four[i] = ecx_scale(p, sum[at / panels][at % panels], scale[at % panels]);
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

/* Sums products of four groups. Vector v of a row has four sums of each group, from 4 v on. */
ECX_INLINE void ecx_sum_groups(const struct ecx_product* p, size_t first, size_t rows,
                               const char* w, size_t panel, __m512i sum[][ECX_PANELS]) {
  const __m512i sign = _mm512_set1_epi8((char) 0x80);
#pragma GCC unroll 4
  for (size_t v = 0; v < ECX_PANELS; v++)
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) sum[r][v] = _mm512_loadu_si512(w + v * panel);
  w += 4 * ECX_COLUMNS;
  const int8_t* const* at = p->at + first;
  for (size_t tap = p->taps; tap; tap--, at += p->pitch) {
    __m512i x[ECX_GROUP_ROWS];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) {
      const int8_t* from = at[r] == p->zero ? at[r] : at[r] + p->offset;
      x[r] = _mm512_xor_si512(_mm512_loadu_si512(from), sign);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++, w += 4 * ECX_COLUMNS) {
      __m512i weights[ECX_PANELS];
#pragma GCC unroll 4
      for (size_t v = 0; v < ECX_PANELS; v++) weights[v] = _mm512_loadu_si512(w + v * panel);
#pragma GCC unroll 4
      for (size_t r = 0; r < rows; r++) {
        const __m512i four = k == 0   ? _mm512_shuffle_epi32(x[r], 0x00)
                             : k == 1 ? _mm512_shuffle_epi32(x[r], 0x55)
                             : k == 2 ? _mm512_shuffle_epi32(x[r], 0xaa)
                                      : _mm512_shuffle_epi32(x[r], 0xff);
#pragma GCC unroll 4
        for (size_t v = 0; v < ECX_PANELS; v++)
          __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[r][v]) : "v"(four), "v"(weights[v]));
      }
    }
  }
}

/* Loads the scales of four groups, in the order of their sums. */
ECX_INLINE void ecx_load_scales(const char* w, size_t panel, __m512 scale[ECX_PANELS]) {
  __m512 of[ECX_GROUPS];
#pragma GCC unroll 4
  for (size_t g = 0; g < ECX_GROUPS; g++)
    of[g] = _mm512_loadu_ps(w + (g + 1) * panel - 4 * ECX_COLUMNS);
  const __m512 low = _mm512_shuffle_f32x4(of[0], of[1], 0x44);
  const __m512 low_2 = _mm512_shuffle_f32x4(of[2], of[3], 0x44);
  const __m512 high = _mm512_shuffle_f32x4(of[0], of[1], 0xee);
  const __m512 high_2 = _mm512_shuffle_f32x4(of[2], of[3], 0xee);
  scale[0] = _mm512_shuffle_f32x4(low, low_2, 0x88);
  scale[1] = _mm512_shuffle_f32x4(low, low_2, 0xdd);
  scale[2] = _mm512_shuffle_f32x4(high, high_2, 0x88);
  scale[3] = _mm512_shuffle_f32x4(high, high_2, 0xdd);
}

/* Computes `rows` rows of four groups, from the row `first` and `column` on. */
ECX_INLINE void ecx_block_groups(const struct ecx_product* p, size_t first, size_t rows,
                                 const char* w, size_t panel, size_t column) {
  __m512i sum[ECX_GROUP_ROWS][ECX_PANELS];
  __m512 scale[ECX_PANELS];
  ecx_sum_groups(p, first, rows, w, panel, sum);
  ecx_load_scales(w, panel, scale);
#pragma GCC unroll 4
  for (size_t r = 0; r < rows; r++) {
    __m512i four[ECX_PANELS];
#pragma GCC unroll 4
    for (size_t v = 0; v < ECX_PANELS; v++) four[v] = ecx_scale(p, sum[r][v], scale[v]);
    if (first + r < p->rows)
      _mm512_storeu_si512(p->output + (first + r) * p->stride + column, ecx_bytes(p, four));
  }
}

static ECX_VNNI __attribute__((noinline)) void ecx_four_rows_of_groups(
    const struct ecx_product* p, const char* w, size_t panel, size_t column) {
  ecx_block_groups(p, 0, 4, w, panel, column);
}

static ECX_VNNI __attribute__((noinline)) void ecx_more_rows_of_groups(
    const struct ecx_product* p, const char* w, size_t panel, size_t column) {
  ecx_block_groups(p, 4, 3, w, panel, column);
}

static ECX_VNNI __attribute__((noinline)) void ecx_row_of_groups(
    const struct ecx_product* p, const char* w, size_t panel, size_t column) {
  ecx_block_groups(p, 0, 1, w, panel, column);
}

/* Prepares a product, and returns the bytes of a panel. */
static size_t ecx_prepare(struct ecx_product* p, const void* params) {
  const union xnn_qs8_qc8w_conv_minmax_params* bounds = params;
  p->zero_point = bounds->fp32_scalar.output_zero_point;
  p->least = bounds->fp32_scalar.output_min;
  p->most = (float) (bounds->fp32_scalar.output_max - p->zero_point);
  p->depth = round_up_po2(p->depth, 4);
  return ECX_COLUMNS * (8 + p->taps * p->depth);
}

static size_t ecx_kind(size_t rows) { return rows > 4 ? 3 : rows > 2 ? 2 : rows - 1; }

static void ecx_multiply(struct ecx_product* p, const char* w, const void* params) {
  const size_t panel = ecx_prepare(p, params), kind = ecx_kind(p->rows);
  for (size_t column = 0; column < p->columns; column += ECX_PANELS * ECX_COLUMNS) {
    const size_t panels = divide_round_up(p->columns - column, ECX_COLUMNS);
    ecx_blocks[kind][min(panels, ECX_PANELS) - 1](p, w, panel, column);
    w += ECX_PANELS * panel;
  }
}

/* Multiplies groups of 16 inputs and 16 outputs. Those after the last four are single. */
static void ecx_multiply_groups(struct ecx_product* p, const char* w, const void* params) {
  const size_t panel = ecx_prepare(p, params), kind = ecx_kind(p->rows);
  size_t column = 0;
  for (; p->columns - column >= ECX_JOINED; column += ECX_JOINED) {
    if (p->rows == 1) ecx_row_of_groups(p, w, panel, column);
    else ecx_four_rows_of_groups(p, w, panel, column);
    if (p->rows > 4) ecx_more_rows_of_groups(p, w, panel, column);
    p->offset += ECX_JOINED;
    w += ECX_GROUPS * panel;
  }
  for (; column < p->columns; column += ECX_COLUMNS) {
    ecx_blocks[kind][0](p, w, panel, column);
    p->offset += ECX_COLUMNS;
    w += panel;
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

/* XNNPACK's interface of convolutions, for kernels of one and of seven rows. */
#define ECX_IGEMM(name, multiply, height)                                                     \
  static void name(size_t mr, size_t nc, size_t kc, size_t ks, const void** a, const void* w, \
                   void* c, size_t cm_stride, size_t cn_stride, size_t a_offset,              \
                   const void* zero, const void* params) {                                    \
    struct ecx_product p = {.at = (const int8_t* const*) a,                                   \
                            .taps = ks / (height * sizeof *a), .pitch = height, .depth = kc,  \
                            .offset = a_offset, .zero = zero, .output = c, .rows = mr,        \
                            .columns = nc, .stride = cm_stride};                              \
    (void) cn_stride;                                                                         \
    multiply(&p, w, params);                                                                  \
  }
ECX_IGEMM(ecx_igemm_1, ecx_multiply, 1)
ECX_IGEMM(ecx_igemm_7, ecx_multiply, 7)
ECX_IGEMM(ecx_igemm_groups_1, ecx_multiply_groups, 1)
ECX_IGEMM(ecx_igemm_groups_7, ecx_multiply_groups, 7)
#undef ECX_IGEMM

static bool ecx_is_joined(size_t groups, size_t outputs, size_t taps, size_t inputs) {
  return groups >= ECX_GROUPS && outputs == ECX_COLUMNS && inputs == ECX_COLUMNS && taps > 1 &&
         taps <= ECX_TAPS;
}

/* Makes the kernels of a convolution those of joined groups. */
bool ecx_join_groups(struct xnn_ukernel_igemm* kernel, size_t groups, size_t outputs,
                                  size_t taps, size_t inputs) {
  struct xnn_hmp_igemm_ukernel* const cases = kernel->igemm_cases;
  if (kernel->mr != ECX_ROWS || cases[0].function[0] != (xnn_igemm_ukernel_fn) ecx_igemm_1 ||
      !ecx_is_joined(groups, outputs, taps, inputs))
    return false;
  cases[1 - 1] = xnn_init_hmp_igemm_ukernel((xnn_igemm_ukernel_fn) ecx_igemm_groups_1);
  cases[7 - 1] = xnn_init_hmp_igemm_ukernel((xnn_igemm_ukernel_fn) ecx_igemm_groups_7);
  kernel->ecx_step = 1;
  return true;
}

/* Packs the weights of a panel: `taps` times `depth` numbers for each of `count` columns, which
 * skip some after each four. Products with the inputs' 128 and their zero point are taken from the
 * biases. */
static ECX_VNNI char* ecx_pack_panel(const int8_t* k, size_t count, size_t skip, size_t taps,
                                     size_t depth, const int32_t* bias, int32_t zero_point,
                                     char* to) {
  __m512i sums = _mm512_setzero_si512();
  char* const biases = to;
  const int8_t* row[ECX_COLUMNS];
  int32_t start[ECX_COLUMNS] = {0};
  for (size_t n = 0; n < count; n++) {
    row[n] = k + (n + n / 4 * skip) * taps * depth;
    start[n] = bias ? bias[n + n / 4 * skip] : 0;
  }
  to += 4 * ECX_COLUMNS;
  for (size_t tap = 0; tap < taps; tap++)
    for (size_t i = 0; i < depth; i += 4, to += 4 * ECX_COLUMNS) {
      const size_t from = tap * depth + i;
      int32_t part[ECX_COLUMNS] = {0};
      if (depth - i >= 4)
        for (size_t n = 0; n < count; n++) __builtin_memcpy(&part[n], row[n] + from, 4);
      else
        for (size_t n = 0; n < count; n++) __builtin_memcpy(&part[n], row[n] + from, depth - i);
      const __m512i x = _mm512_loadu_si512(part);
      sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), x);
      _mm512_storeu_si512(to, x);
    }
  const __m512i excess = _mm512_mullo_epi32(sums, _mm512_set1_epi32(zero_point + 128));
  _mm512_storeu_si512(biases, _mm512_sub_epi32(_mm512_loadu_si512(start), excess));
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
  if (ecx_is_joined(g, nc, ks, kc))
    for (; g >= ECX_GROUPS; g -= ECX_GROUPS, from += ECX_JOINED * ks * kc) {
      for (size_t n = 0; n < ECX_COLUMNS; n += 4)
        to = ecx_pack_panel(from + n * ks * kc, ECX_COLUMNS, ECX_COLUMNS - 4, ks, kc,
                            bias ? bias + n : NULL, zero_point, to) + extra_bytes;
      bias = bias ? bias + ECX_JOINED : NULL;
    }
  for (; g; g--)
    for (size_t n = 0; n < nc; n += ECX_COLUMNS) {
      const size_t count = min(nc - n, ECX_COLUMNS);
      to = ecx_pack_panel(from, count, 0, ks, kc, bias, zero_point, to) + extra_bytes;
      from += count * ks * kc;
      bias = bias ? bias + count : NULL;
    }
}

static void ecx_pack_goi(size_t g, size_t nc, size_t kc, size_t nr, size_t kr, size_t sr,
                         const void* k, const void* b, const void* scale, void* packed_weights,
                         size_t extra_bytes, const void* params) {
  ecx_pack_goki(g, nc, 1, kc, nr, kr, sr, k, b, scale, packed_weights, extra_bytes, params);
}

void ecx_set_qs8_qc8w_gemm(struct xnn_gemm_config* config) {
#if XNN_ENABLE_AVX512VNNI
  if (config->minmax.gemm[7 - 1].function[XNN_UARCH_DEFAULT] !=
      (xnn_gemm_ukernel_fn) xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_7x16c8__avx512vnni_prfm)
    return;
  config->minmax.gemm[1 - 1] = xnn_init_hmp_gemm_ukernel(ecx_gemm);
  config->minmax.gemm[7 - 1] = xnn_init_hmp_gemm_ukernel(ecx_gemm);
  config->minmax.igemm[1 - 1] = xnn_init_hmp_igemm_ukernel(ecx_igemm_1);
  config->minmax.igemm[7 - 1] = xnn_init_hmp_igemm_ukernel(ecx_igemm_7);
  config->pack_gemm_goi = ecx_pack_goi;
  config->pack_igemm_goki = ecx_pack_goki;
  config->log2_kr = 2;
#endif
}
#else
bool ecx_join_groups(struct xnn_ukernel_igemm* kernel, size_t groups, size_t outputs, size_t taps,
                     size_t inputs) {
  (void) kernel, (void) groups, (void) outputs, (void) taps, (void) inputs;
  return false;
}
#endif
