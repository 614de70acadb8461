/* The compute types of decompositions. Includes EC_TEMPLATE once for each. */
#include "core/dtype/float64.h"
#include "core/dtype/complex128.h"
