/* Loops for each dtype without macro bodies.
 *
 * A loop is an ordinary `name.tmpl.h` written with EC_T (as stored), EC_C (as computed), EC_ACC
 * (as accumulated), EC_LOAD(stored) -> computed, EC_STORE(computed) -> stored, and EC_FN(name)
 * for function names. It is included once per dtype:
 *
 *   #define EC_TEMPLATE "kernels/pointwise/add.tmpl.h"
 *   #include "core/foreach/real.h"
 *   #undef EC_TEMPLATE
 *   static const ec_loop2 add_loops[EC_DTYPE_COUNT] = {EC_ROWS_REAL(add)};
 *
 * Integers also have EC_U: an unsigned type as wide as EC_T or as int, in which arithmetic wraps.
 *
 * Compiler errors, vectoriser reports, breakpoints and coverage point at the template's lines. */
#ifndef EC_CORE_TEMPLATE_H
#define EC_CORE_TEMPLATE_H

#include <complex.h>
#undef I
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/float8.h"
#include "core/half.h"

#define EC_PASTE2(a, b) a##_##b
#define EC_PASTE(a, b) EC_PASTE2(a, b)
/* Returns the name of a template's function for the current dtype: EC_FN(add) is add_float32. */
#define EC_FN(name) EC_PASTE(name, EC_SUFFIX)

/* A selective build keeps some dtypes (EC_KEPT_DTYPES). Tensors of the others are refused when a
 * method is loaded; tables have ec_dropped_loop for them, which makes the kernel call an error. */
#define EC_KEEP(suffix, fn)                                                                        \
  (EC_KEEPS_##suffix ? (fn) : (__typeof__(&*(fn)))(void (*)(void))ec_dropped_loop)
enum {
  /* Numbers of programs are float64; kernels of random numbers, ranges, norms and decompositions
   * compute in it. Sums of small integers and of complex64 are wider. */
  EC_SMALL_INTEGERS = 1 << EC_UINT8 | 1 << EC_INT8 | 1 << EC_INT16,
  EC_KEPT_CASTS = (int)(EC_KEPT_DTYPES | 1u << EC_FLOAT64 |
                        (EC_KEPT_DTYPES & EC_SMALL_INTEGERS ? 1u << EC_INT32 : 0) |
                        (EC_KEPT_DTYPES >> EC_COMPLEX64 & 1u) << EC_COMPLEX128),
#define EC_KEEPS(name, suffix)                                                                     \
  EC_KEEPS_##suffix = EC_KEPT_DTYPES >> EC_##name & 1,                                             \
  EC_CASTS_##suffix = EC_KEPT_CASTS >> EC_##name & 1
  EC_KEEPS(UINT8, uint8),
  EC_KEEPS(INT8, int8),
  EC_KEEPS(INT16, int16),
  EC_KEEPS(INT32, int32),
  EC_KEEPS(INT64, int64),
  EC_KEEPS(UINT16, uint16),
  EC_KEEPS(UINT32, uint32),
  EC_KEEPS(UINT64, uint64),
  EC_KEEPS(FLOAT16, float16),
  EC_KEEPS(BFLOAT16, bfloat16),
  EC_KEEPS(FLOAT32, float32),
  EC_KEEPS(FLOAT64, float64),
  EC_KEEPS(COMPLEX64, complex64),
  EC_KEEPS(COMPLEX128, complex128),
  EC_KEEPS(BOOL, bool8),
  EC_KEEPS(FLOAT8_E5M2, float8_e5m2),
  EC_KEEPS(FLOAT8_E4M3FN, float8_e4m3fn),
  EC_KEEPS(FLOAT8_E5M2FNUZ, float8_e5m2fnuz),
  EC_KEEPS(FLOAT8_E4M3FNUZ, float8_e4m3fnuz),
#undef EC_KEEPS
};

/* Initialisers of a table indexed by dtype. */
#define EC_ROWS_INTEGRAL(fn)                                                                       \
  [EC_UINT8] = EC_KEEP(uint8, fn##_uint8),                                                         \
  [EC_INT8] = EC_KEEP(int8, fn##_int8),                                                            \
  [EC_INT16] = EC_KEEP(int16, fn##_int16),                                                         \
  [EC_INT32] = EC_KEEP(int32, fn##_int32),                                                         \
  [EC_INT64] = EC_KEEP(int64, fn##_int64),                                                         \
  [EC_UINT16] = EC_KEEP(uint16, fn##_uint16),                                                      \
  [EC_UINT32] = EC_KEEP(uint32, fn##_uint32),                                                      \
  [EC_UINT64] = EC_KEEP(uint64, fn##_uint64)
#define EC_ROWS_FLOATING(fn)                                                                       \
  [EC_FLOAT16] = EC_KEEP(float16, fn##_float16),                                                   \
  [EC_BFLOAT16] = EC_KEEP(bfloat16, fn##_bfloat16),                                                \
  [EC_FLOAT32] = EC_KEEP(float32, fn##_float32),                                                   \
  [EC_FLOAT64] = EC_KEEP(float64, fn##_float64)
/* For loops in which float16 and bfloat16 are computed as float32 (kernels/pointwise). */
#define EC_ROWS_WIDE(fn)                                                                           \
  [EC_FLOAT32] = EC_KEEP(float32, fn##_float32),                                                   \
  [EC_FLOAT64] = EC_KEEP(float64, fn##_float64)
#define EC_ROWS_COMPLEX(fn)                                                                        \
  [EC_COMPLEX64] = EC_KEEP(complex64, fn##_complex64),                                             \
  [EC_COMPLEX128] = EC_KEEP(complex128, fn##_complex128)
#define EC_ROWS_BOOL(fn)                                                                           \
  [EC_BOOL] = EC_KEEP(bool8, fn##_bool8)
#define EC_ROWS_FLOAT8(fn)                                                                         \
  [EC_FLOAT8_E5M2] = EC_KEEP(float8_e5m2, fn##_float8_e5m2),                                       \
  [EC_FLOAT8_E4M3FN] = EC_KEEP(float8_e4m3fn, fn##_float8_e4m3fn),                                 \
  [EC_FLOAT8_E5M2FNUZ] = EC_KEEP(float8_e5m2fnuz, fn##_float8_e5m2fnuz),                           \
  [EC_FLOAT8_E4M3FNUZ] = EC_KEEP(float8_e4m3fnuz, fn##_float8_e4m3fnuz)
#define EC_ROWS_REAL(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_FLOATING(fn)
#define EC_ROWS_REALB(fn) EC_ROWS_REAL(fn), EC_ROWS_BOOL(fn)
#define EC_ROWS_INTB(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_BOOL(fn)
#define EC_ROWS_FLOATC(fn) EC_ROWS_FLOATING(fn), EC_ROWS_COMPLEX(fn)
#define EC_ROWS_ALL(fn) EC_ROWS_REALB(fn), EC_ROWS_COMPLEX(fn)
#define EC_ROWS_STORED(fn) EC_ROWS_ALL(fn), EC_ROWS_FLOAT8(fn)

#endif
