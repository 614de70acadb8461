/* Complex numbers to real ones, and questions about them. */
#define EC_NAME absolute
#define EC_OUT __typeof__(__real__(EC_T)0)
#define EC_PUT(x) (x)
#define EC_EXPR(x) fabs(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME is_nan
#define EC_PREDICATE
#define EC_EXPR(x) (isnan(creal(x)) || isnan(cimag(x)))
#include "kernels/pointwise/loop1.h"
#define EC_NAME is_inf
#define EC_PREDICATE
#define EC_EXPR(x) (isinf(creal(x)) || isinf(cimag(x)))
#include "kernels/pointwise/loop1.h"
