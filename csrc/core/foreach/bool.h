/* Only bool. Includes EC_TEMPLATE once for each. */
#include "core/dtype/bool.h"
