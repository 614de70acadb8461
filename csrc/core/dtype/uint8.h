/* uint8 for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T uint8_t
#define EC_C uint8_t
#define EC_ACC int64_t
#define EC_U uint32_t
#define EC_SUFFIX uint8
#define EC_ID EC_UINT8
#define EC_LOAD(x) (x)
#define EC_STORE(x) ((uint8_t)(x))
#define EC_IS_FLOAT 0
#define EC_IS_COMPLEX 0
#define EC_IS_BOOL 0
#define EC_IS_SIGNED 0 /* for integers only */
#define EC_LOWEST 0
#define EC_HIGHEST UINT8_MAX
#include EC_TEMPLATE
#include "core/dtype/end.h"
