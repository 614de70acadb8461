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
#include "core/half.h"

#define EC_PASTE2(a, b) a##_##b
#define EC_PASTE(a, b) EC_PASTE2(a, b)
/* Returns the name of a template's function for the current dtype: EC_FN(add) is add_float32. */
#define EC_FN(name) EC_PASTE(name, EC_SUFFIX)

/* Initialisers of a table indexed by dtype. */
#define EC_ROWS_INTEGRAL(fn)                                                                       \
  [EC_UINT8] = fn##_uint8, [EC_INT8] = fn##_int8, [EC_INT16] = fn##_int16,                         \
  [EC_INT32] = fn##_int32, [EC_INT64] = fn##_int64, [EC_UINT16] = fn##_uint16,                     \
  [EC_UINT32] = fn##_uint32, [EC_UINT64] = fn##_uint64
#define EC_ROWS_FLOATING(fn)                                                                       \
  [EC_FLOAT16] = fn##_float16, [EC_BFLOAT16] = fn##_bfloat16, [EC_FLOAT32] = fn##_float32,         \
  [EC_FLOAT64] = fn##_float64
/* For loops in which float16 and bfloat16 are computed as float32 (kernels/pointwise). */
#define EC_ROWS_WIDE(fn) [EC_FLOAT32] = fn##_float32, [EC_FLOAT64] = fn##_float64
#define EC_ROWS_COMPLEX(fn) [EC_COMPLEX64] = fn##_complex64, [EC_COMPLEX128] = fn##_complex128
#define EC_ROWS_BOOL(fn) [EC_BOOL] = fn##_bool8
#define EC_ROWS_REAL(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_FLOATING(fn)
#define EC_ROWS_REALB(fn) EC_ROWS_REAL(fn), EC_ROWS_BOOL(fn)
#define EC_ROWS_INTB(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_BOOL(fn)
#define EC_ROWS_FLOATC(fn) EC_ROWS_FLOATING(fn), EC_ROWS_COMPLEX(fn)
#define EC_ROWS_ALL(fn) EC_ROWS_REALB(fn), EC_ROWS_COMPLEX(fn)

#endif
