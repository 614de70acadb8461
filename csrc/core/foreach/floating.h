/* All floating-point types. Includes EC_TEMPLATE once for each. */
#include "core/dtype/float16.h"
#include "core/dtype/bfloat16.h"
#include "core/dtype/float32.h"
#include "core/dtype/float64.h"
