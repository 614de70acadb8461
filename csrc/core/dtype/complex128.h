/* complex128 for a template: how it is stored (EC_T), computed (EC_C) and accumulated (EC_ACC). */
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
