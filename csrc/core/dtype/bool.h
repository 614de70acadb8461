/* bool for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T uint8_t
#define EC_C bool
#define EC_ACC int64_t
#define EC_SUFFIX bool8 /* not `bool`, a macro that would expand */
#define EC_ID EC_BOOL
#define EC_LOAD(x) ((x) != 0)
#define EC_STORE(x) ((uint8_t)((x) != 0))
#define EC_IS_FLOAT 0
#define EC_IS_COMPLEX 0
#define EC_IS_BOOL 1
#define EC_LOWEST false
#define EC_HIGHEST true
#include EC_TEMPLATE
#include "core/dtype/end.h"
