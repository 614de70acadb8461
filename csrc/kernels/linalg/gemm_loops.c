/* The table of matrix product loops by dtype. */
#include "kernels/linalg/gemm_loops.h"

#include <string.h>

#include "core/complex.h"
#include "core/simd.h"
#include "core/template.h"

#define EC_TEMPLATE "kernels/linalg/gemm_loops.tmpl.h"
#include "kernels/linalg/foreach_gemm.h"
#undef EC_TEMPLATE

#define ROW(name, type, in_place)                                                                  \
  {EC_KEEP(name, pack_##name), EC_KEEP(name, store_##name), EC_KEEP(name, axpy_##name),            \
   EC_KEEP(name, dot_##name),  EC_KEEP(name, reference_##name), type, in_place}

const ec_gemm_loops ec_gemm_loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16, EC_MICRO_FLOAT, false),
    [EC_BFLOAT16] = ROW(bfloat16, EC_MICRO_FLOAT, false),
    [EC_FLOAT32] = ROW(float32, EC_MICRO_FLOAT, true),
    [EC_FLOAT64] = ROW(float64, EC_MICRO_DOUBLE, true),
    [EC_UINT8] = ROW(uint8, EC_MICRO_UINT32, false),
    [EC_INT8] = ROW(int8, EC_MICRO_UINT32, false),
    [EC_INT16] = ROW(int16, EC_MICRO_UINT32, false),
    [EC_INT32] = ROW(int32, EC_MICRO_UINT32, true),
    [EC_INT64] = ROW(int64, EC_MICRO_UINT64, true),
    [EC_COMPLEX64] = ROW(complex64, EC_MICRO_COMPLEX64, true),
    [EC_COMPLEX128] = ROW(complex128, EC_MICRO_COMPLEX128, true),
};
