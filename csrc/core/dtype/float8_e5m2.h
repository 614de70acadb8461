/* float8_e5m2 for a template: types as stored (EC_T), computed (EC_C), accumulated (EC_ACC). */
#define EC_T uint8_t
#define EC_C float
#define EC_ACC float
#define EC_SUFFIX float8_e5m2
#define EC_ID EC_FLOAT8_E5M2
#define EC_LOAD(x) ec_f8_to_f32(x, EC_F8_E5M2)
#define EC_STORE(x) ec_f32_to_f8(x, EC_F8_E5M2)
#define EC_IS_FLOAT 1
#define EC_IS_COMPLEX 0
#define EC_IS_BOOL 0
#define EC_LOWEST -INFINITY
#define EC_HIGHEST INFINITY
#include EC_TEMPLATE
#include "core/dtype/end.h"
