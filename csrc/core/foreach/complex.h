/* All complex types. Includes EC_TEMPLATE once for each. */
#include "core/dtype/complex64.h"
#include "core/dtype/complex128.h"
