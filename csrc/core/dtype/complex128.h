/* complex128 for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T double _Complex
#define EC_C double _Complex
#define EC_ACC double _Complex
#define EC_SUFFIX complex128
#define EC_ID EC_COMPLEX128
#define EC_LOAD(x) (x)
#define EC_STORE(x) (x)
#define EC_IS_FLOAT 0
#define EC_IS_COMPLEX 1
#define EC_IS_BOOL 0
#define EC_LOWEST 0
#define EC_HIGHEST 0
#include EC_TEMPLATE
#include "core/dtype/end.h"
