/* int16 for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T int16_t
#define EC_C int16_t
#define EC_ACC int64_t
#define EC_U uint32_t
#define EC_SUFFIX int16
#define EC_ID EC_INT16
#define EC_LOAD(x) (x)
#define EC_STORE(x) ((int16_t)(x))
#define EC_IS_FLOAT 0
#define EC_IS_COMPLEX 0
#define EC_IS_BOOL 0
#define EC_IS_SIGNED 1 /* for integers only */
#define EC_LOWEST INT16_MIN
#define EC_HIGHEST INT16_MAX
#include EC_TEMPLATE
#include "core/dtype/end.h"
