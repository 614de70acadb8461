/* complex64 for a template: stored type (EC_T), compute type (EC_C), accumulator type (EC_ACC). */
#define EC_T float _Complex
#define EC_C float _Complex
#define EC_ACC float _Complex
#define EC_SUFFIX complex64
#define EC_ID EC_COMPLEX64
#define EC_LOAD(x) (x)
#define EC_STORE(x) (x)
#define EC_IS_FLOAT 0
#define EC_IS_COMPLEX 1
#define EC_IS_BOOL 0
#define EC_LOWEST 0
#define EC_HIGHEST 0
#include EC_TEMPLATE
#include "core/dtype/end.h"
