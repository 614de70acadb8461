/* Includes EC_TEMPLATE once for every real dtype that eager multiplies matrices of. EC_G is the
 * type that the product is computed in: halves in float, integers modulo a power of two, so that
 * nothing overflows. EC_R is what plain loops sum in. */
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
