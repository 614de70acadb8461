/* float32, float64 and complex. Includes EC_TEMPLATE once for each. */
#include "core/foreach/complex.h"
#include "core/foreach/wide.h"
