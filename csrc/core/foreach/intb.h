/* Integers and bool. Includes EC_TEMPLATE once for each. */
#include "core/foreach/integral.h"
#include "core/dtype/bool.h"
