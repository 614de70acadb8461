/* Every dtype, and the float8 types, which operators only move and convert. Includes EC_TEMPLATE
 * once for each. */
#include "core/foreach/all.h"
#include "core/dtype/float8_e5m2.h"
#include "core/dtype/float8_e4m3fn.h"
#include "core/dtype/float8_e5m2fnuz.h"
#include "core/dtype/float8_e4m3fnuz.h"
