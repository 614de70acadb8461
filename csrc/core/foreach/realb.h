/* Integers, floating point and bool. Includes EC_TEMPLATE once for each. */
#include "core/foreach/real.h"
#include "core/dtype/bool.h"
