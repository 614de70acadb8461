/* The fast loops of integers, and their table. */
#include "core/simd.h"
#include "kernels/pointwise/fast.h"
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/fast_int.tmpl.h"
#include "core/dtype/int16.h"
#include "core/dtype/int32.h"
#include "core/dtype/int8.h"
#include "core/dtype/uint16.h"
#include "core/dtype/uint32.h"
#include "core/dtype/uint8.h"
#undef EC_TEMPLATE

#define ROWS(fn)                                                                                   \
  {[EC_UINT8] = EC_KEEP(uint8, fn##_uint8),    [EC_INT8] = EC_KEEP(int8, fn##_int8),               \
   [EC_UINT16] = EC_KEEP(uint16, fn##_uint16), [EC_INT16] = EC_KEEP(int16, fn##_int16),            \
   [EC_UINT32] = EC_KEEP(uint32, fn##_uint32), [EC_INT32] = EC_KEEP(int32, fn##_int32)}

static const ec_elementwise_loop loops[EC_FAST_COUNT][EC_DTYPE_COUNT] = {
    [EC_FAST_FMOD] = ROWS(fast_fmod),
    [EC_FAST_REMAINDER] = ROWS(fast_remainder),
    [EC_FAST_DIV_FLOOR] = ROWS(fast_div_floor),
};

ec_elementwise_loop ec_fast_int(ec_fast which, ec_dtype compute) { return loops[which][compute]; }
