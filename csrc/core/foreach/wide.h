/* float32 and float64: what the halves compute in as well. Includes EC_TEMPLATE once for each. */
#include "core/dtype/float32.h"
#include "core/dtype/float64.h"
