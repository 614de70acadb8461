/* All micro-kernels of one instruction set. Macros to define before: EC_M_BYTES of a vector,
 * EC_M_TARGET attribute, EC_M_THIRD rows, EC_M_COLS vectors in a row, EC_M_SET_FLOAT(x) and
 * EC_M_FMA_FLOAT(a, b, c), the same for DOUBLE. Integers use the compiler's vector arithmetic. */

enum { EC_M_COMPLEX_ROWS = EC_M_THIRD * 3 / 2 };

/* memory_* types may be unaligned and alias any type. */
typedef float vector_f __attribute__((vector_size(EC_M_BYTES)));
typedef double vector_d __attribute__((vector_size(EC_M_BYTES)));
typedef uint32_t vector_i __attribute__((vector_size(EC_M_BYTES)));
typedef uint64_t vector_l __attribute__((vector_size(EC_M_BYTES)));
typedef float memory_f __attribute__((vector_size(EC_M_BYTES), aligned(4), may_alias));
typedef double memory_d __attribute__((vector_size(EC_M_BYTES), aligned(8), may_alias));
typedef uint32_t memory_i __attribute__((vector_size(EC_M_BYTES), aligned(4), may_alias));
typedef uint64_t memory_l __attribute__((vector_size(EC_M_BYTES), aligned(8), may_alias));

#define EC_M_FROM const void *b_panel, size_t ldb
#define EC_M_BEGIN const EC_M_T *b = b_panel
#define EC_M_LOAD(v) (*(const EC_M_U *)(b + (v) * LANES))
#define EC_M_NEXT b += ldb

#define EC_M_T float
#define EC_M_V vector_f
#define EC_M_U memory_f
#define EC_M_SET(x) EC_M_SET_FLOAT(x)
#define EC_M_FMA(a, b, c) EC_M_FMA_FLOAT(a, b, c)
#define EC_M_NAME(thirds) float_##thirds
#define EC_M_FN complex64
#include "kernels/linalg/micro_complex.tmpl.h"
#include "kernels/linalg/micro_steps.tmpl.h"

#define EC_M_T double
#define EC_M_V vector_d
#define EC_M_U memory_d
#define EC_M_SET(x) EC_M_SET_DOUBLE(x)
#define EC_M_FMA(a, b, c) EC_M_FMA_DOUBLE(a, b, c)
#define EC_M_NAME(thirds) double_##thirds
#define EC_M_FN complex128
#include "kernels/linalg/micro_complex.tmpl.h"
#include "kernels/linalg/micro_steps.tmpl.h"

#define EC_M_T uint32_t
#define EC_M_V vector_i
#define EC_M_U memory_i
#define EC_M_SET(x) ((x) - (vector_i){0})
#define EC_M_FMA(a, b, c) ((a) * (b) + (c))
#define EC_M_NAME(thirds) uint32_##thirds
#include "kernels/linalg/micro_steps.tmpl.h"

#define EC_M_T uint64_t
#define EC_M_V vector_l
#define EC_M_U memory_l
#define EC_M_SET(x) ((x) - (vector_l){0})
#define EC_M_FMA(a, b, c) ((a) * (b) + (c))
#define EC_M_NAME(thirds) uint64_##thirds
#include "kernels/linalg/micro_steps.tmpl.h"

#define EC_M_ROW(type, name)                                                                       \
  {3 * EC_M_THIRD, EC_M_COLS * EC_M_BYTES / sizeof(type), sizeof(type),                            \
   {name##_1, name##_2, name##_3}}
#define EC_M_COMPLEX_ROW(type, name)                                                               \
  {EC_M_COMPLEX_ROWS, EC_M_COLS * EC_M_BYTES / (2 * sizeof(type)), 2 * sizeof(type),               \
   {name, name, name}}
#define EC_M_TABLE                                                                                 \
  [EC_MICRO_FLOAT] = EC_M_ROW(float, float), [EC_MICRO_DOUBLE] = EC_M_ROW(double, double),         \
  [EC_MICRO_UINT32] = EC_M_ROW(uint32_t, uint32), [EC_MICRO_UINT64] = EC_M_ROW(uint64_t, uint64),  \
  [EC_MICRO_COMPLEX64] = EC_M_COMPLEX_ROW(float, complex64),                                       \
  [EC_MICRO_COMPLEX128] = EC_M_COMPLEX_ROW(double, complex128)
