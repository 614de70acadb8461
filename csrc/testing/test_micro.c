/* The micro-kernels of every instruction set of this machine, compared with plain sums. Whole runs
 * only use the best one. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/simd.h"
#include "kernels/linalg/micro.h"
#include "testing/test.h"

enum { DEPTH = 7, MAX_SUMS = EC_MICRO_LANES * EC_MICRO_LANES };

/* Small integers: all types and orders of additions have equal results. */
static double number(size_t i) { return (double)((i * 37 + 11) % 19) - 9; }

static void set_number(ec_micro_type type, void *data, size_t i, double re, double im) {
  switch (type) {
  case EC_MICRO_FLOAT: ((float *)data)[i] = (float)re; break;
  case EC_MICRO_DOUBLE: ((double *)data)[i] = re; break;
  case EC_MICRO_UINT32: ((uint32_t *)data)[i] = (uint32_t)(int32_t)re; break;
  case EC_MICRO_UINT64: ((uint64_t *)data)[i] = (uint64_t)(int64_t)re; break;
  case EC_MICRO_COMPLEX64:
    ((float *)data)[2 * i] = (float)re;
    ((float *)data)[2 * i + 1] = (float)im;
    break;
  default:
    ((double *)data)[2 * i] = re;
    ((double *)data)[2 * i + 1] = im;
  }
}

static bool is_complex(ec_micro_type type) {
  return type == EC_MICRO_COMPLEX64 || type == EC_MICRO_COMPLEX128;
}

/* Returns the expected sum. */
static void expect(const ec_micro *m, ec_micro_type type, size_t r, size_t c, bool twice,
                   void *sum) {
  double re = 0, im = 0;
  for (size_t k = 0; k < DEPTH; k++) {
    double x = number(k * m->rows + r), y = number(3 * (k * m->cols + c));
    double xi = is_complex(type) ? number(k + r) : 0, yi = is_complex(type) ? number(k * c) : 0;
    re += x * y - xi * yi;
    im += x * yi + xi * y;
  }
  set_number(type, sum, 0, twice ? 2 * re : re, twice ? 2 * im : im);
}

static void check_step(ec_test *t, const ec_micro *m, ec_micro_type type, size_t step,
                       const void *a, const void *b) {
  size_t rows = m->rows * (step + 1) / EC_MICRO_STEPS, stride = m->cols + 3;
  char *sums = calloc(MAX_SUMS, m->size), wanted[16];
  if (!sums) abort();
  for (int twice = 0; twice < 2; twice++) {
    m->fn[step](DEPTH, a, b, m->cols, sums, stride, twice);
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < m->cols; c++) {
        expect(m, type, r, c, twice, wanted);
        if (memcmp(wanted, sums + (r * stride + c) * m->size, m->size) != 0)
          ec_test_fail(t, __FILE__, __LINE__, "type %d, step %zu, row %zu, column %zu", (int)type,
                       step, r, c);
      }
  }
  free(sums);
}

static void check_table(ec_test *t, const ec_micro table[EC_MICRO_TYPES]) {
  for (int type = 0; type < EC_MICRO_TYPES; type++) {
    const ec_micro *m = &table[type];
    ec_micro_type id = (ec_micro_type)type;
    EC_CHECK(t, m->rows && m->cols && m->rows <= EC_MICRO_LANES && m->cols <= EC_MICRO_LANES);
    void *a = calloc(DEPTH * m->rows, m->size), *b = calloc(DEPTH * m->cols, m->size);
    if (!a || !b) abort();
    for (size_t k = 0; k < DEPTH; k++) {
      for (size_t r = 0; r < m->rows; r++) {
        size_t i = k * m->rows + r;
        set_number(id, a, i, number(i), number(k + r));
      }
      for (size_t c = 0; c < m->cols; c++) {
        size_t i = k * m->cols + c;
        set_number(id, b, i, number(3 * i), number(k * c));
      }
    }
    for (size_t step = 0; step < EC_MICRO_STEPS; step++) check_step(t, m, id, step, a, b);
    free(a);
    free(b);
  }
}

#if EC_SIMD_X86
enum { TAPS = 3, CHANNEL = 3 * EC_MICRO_LANES, FIRST = 2 };

/* Compares the sums of taps with those of a packed panel: outside the masks are NaNs. */
static void check_taps(ec_test *t, const ec_micro *m, const float *a) {
  ec_micro_taps taps = {.next = CHANNEL, .first = FIRST, .count = TAPS};
  const uint64_t inside[TAPS] = {UINT64_MAX, 0x7ffefffe, 0xffff0003};
  float *data = calloc(DEPTH * CHANNEL, sizeof *data), b[DEPTH * EC_MICRO_LANES] = {0};
  float *sums = calloc(2 * MAX_SUMS, sizeof *sums);
  if (!data || !sums) abort();
  taps.data = data;
  for (size_t i = 0; i < DEPTH * CHANNEL; i++) data[i] = NAN;
  for (size_t i = 0; i < TAPS; i++)
    taps.tap[i] = (ec_micro_tap){(int64_t)(i * EC_MICRO_LANES) + 1, inside[i]};
  for (size_t k = 0; k < DEPTH; k++) {
    const size_t tap = (k + FIRST) % TAPS, channel = (k + FIRST) / TAPS;
    for (size_t c = 0; c < m->cols; c++) {
      if (!(inside[tap] >> c & 1)) continue;
      b[k * m->cols + c] = (float)number(k + 3 * c);
      data[channel * CHANNEL + (size_t)taps.tap[tap].offset + c] = b[k * m->cols + c];
    }
  }
  for (size_t lanes = 1; lanes <= m->rows; lanes++) {
    float packed[DEPTH * EC_MICRO_LANES + 1] = {0};
    ec_micro_pack_taps(DEPTH, &taps, lanes, m->rows, packed);
    for (size_t i = 0; i < DEPTH * m->rows; i++) {
      const size_t k = i / m->rows, lane = i % m->rows;
      EC_CHECK(t, packed[i] == (lane < lanes ? b[k * m->cols + lane] : 0));
    }
  }
  const size_t stride = m->cols + 3, bytes = MAX_SUMS * sizeof *sums;
  for (int twice = 0; twice < 2; twice++)
    for (size_t step = 0; step < EC_MICRO_STEPS; step++) {
      m->fn[step](DEPTH, a, b, m->cols, sums, stride, twice);
      ec_micro_find_taps(m)[step](DEPTH, a, &taps, sums + MAX_SUMS, stride, twice);
      EC_CHECK(t, memcmp(sums, sums + MAX_SUMS, bytes) == 0);
    }
  free(data);
  free(sums);
}
#endif

void ec_test_micro_kernels(ec_test *t) {
  check_table(t, ec_micro_generic);
#if EC_SIMD_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    check_table(t, ec_micro_avx2);
  if (!__builtin_cpu_supports("avx512f")) return;
  check_table(t, ec_micro_avx512);
  const ec_micro *m = &ec_micro_avx512[EC_MICRO_FLOAT];
  float a[DEPTH * EC_MICRO_LANES];
  for (size_t i = 0; i < DEPTH * m->rows; i++) a[i] = (float)number(i);
  check_taps(t, m, a);
#endif
}
