/* Includes EC_TEMPLATE once for every real dtype of eager's matrix products. EC_G is the compute
 * type: float for float16 and bfloat16, unsigned for integers, so that nothing overflows. EC_R is
 * the accumulator type of plain loops. */
#define EC_G float
#define EC_R double
#include "core/dtype/float16.h"
#include "core/dtype/bfloat16.h"
#include "core/dtype/float32.h"
#undef EC_G
#undef EC_R
#define EC_G double
#define EC_R double
#include "core/dtype/float64.h"
#undef EC_G
#undef EC_R
#define EC_G uint32_t
#define EC_R uint32_t
#include "core/dtype/uint8.h"
#include "core/dtype/int8.h"
#include "core/dtype/int16.h"
#include "core/dtype/int32.h"
#undef EC_G
#undef EC_R
#define EC_G uint64_t
#define EC_R uint64_t
#include "core/dtype/int64.h"
#undef EC_G
#undef EC_R
