/* All integers. Includes EC_TEMPLATE once for each. */
#include "core/dtype/uint8.h"
#include "core/dtype/int8.h"
#include "core/dtype/int16.h"
#include "core/dtype/int32.h"
#include "core/dtype/int64.h"
#include "core/dtype/uint16.h"
#include "core/dtype/uint32.h"
#include "core/dtype/uint64.h"
