/* float32 and float64; float16 and bfloat16 compute in float32. Includes EC_TEMPLATE once for
 * each. */
#include "core/dtype/float32.h"
#include "core/dtype/float64.h"
