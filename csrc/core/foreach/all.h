/* Every dtype. Includes EC_TEMPLATE once for each. */
#include "core/foreach/realb.h"
#include "core/foreach/complex.h"
