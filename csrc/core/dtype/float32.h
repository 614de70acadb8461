/* float32 for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T float
#define EC_C float
#define EC_ACC float
#define EC_SUFFIX float32
#define EC_ID EC_FLOAT32
#define EC_LOAD(x) (x)
#define EC_STORE(x) (x)
#define EC_IS_FLOAT 1
#define EC_IS_COMPLEX 0
#define EC_IS_BOOL 0
#define EC_LOWEST -INFINITY
#define EC_HIGHEST INFINITY
#include EC_TEMPLATE
#include "core/dtype/end.h"
