/* Integers and floating point. Includes EC_TEMPLATE once for each. */
#include "core/foreach/integral.h"
#include "core/foreach/floating.h"
