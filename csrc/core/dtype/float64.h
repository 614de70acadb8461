/* float64 for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T double
#define EC_C double
#define EC_ACC double
#define EC_SUFFIX float64
#define EC_ID EC_FLOAT64
#define EC_LOAD(x) (x)
#define EC_STORE(x) (x)
#define EC_IS_FLOAT 1
#define EC_IS_COMPLEX 0
#define EC_IS_BOOL 0
#define EC_LOWEST (-(double)INFINITY)
#define EC_HIGHEST ((double)INFINITY)
#include EC_TEMPLATE
#include "core/dtype/end.h"
