/* Floating point and complex. Includes EC_TEMPLATE once for each. */
#include "core/foreach/floating.h"
#include "core/foreach/complex.h"
