/* Unary operators whose result has the operand's dtype (abs of complex: the real one). */
#if EC_IS_COMPLEX
#define EC_NAME neg
#define EC_EXPR(x) (-(x))
#include "kernels/pointwise/loop1.h"

#elif EC_IS_FLOAT
#define EC_NAME neg
#define EC_LOOP_CLONES
#define EC_EXPR(x) (-(x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME absolute
#define EC_LOOP_CLONES
#define EC_EXPR(x) fabs(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME sign
#define EC_EXPR(x) ((EC_C)(((x) > 0) - ((x) < 0)))
#include "kernels/pointwise/loop1.h"
#define EC_NAME relu
#define EC_LOOP_CLONES
#define EC_EXPR(x) ((x) < 0 ? 0 : (x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME round_down
#define EC_EXPR(x) floor(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME round_up
#define EC_EXPR(x) ceil(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME round_to_zero
#define EC_EXPR(x) trunc(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME round_to_even
#define EC_EXPR(x) nearbyint(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME sign_bit
#define EC_PREDICATE
#define EC_EXPR(x) (signbit(x) != 0)
#include "kernels/pointwise/loop1.h"
#define EC_NAME is_nan
#define EC_PREDICATE
#define EC_EXPR(x) (isnan(x) != 0)
#include "kernels/pointwise/loop1.h"
#define EC_NAME is_inf
#define EC_PREDICATE
#define EC_EXPR(x) (fabs(x) == (EC_C)INFINITY)
#include "kernels/pointwise/loop1.h"

#elif EC_IS_BOOL
#define EC_NAME sign_bit
#define EC_PREDICATE
#define EC_EXPR(x) ((void)(x), false)
#include "kernels/pointwise/loop1.h"
#define EC_NAME sign
#define EC_EXPR(x) (x)
#include "kernels/pointwise/loop1.h"

#else
#define EC_NAME neg
#define EC_EXPR(x) ((EC_T)(0 - (EC_U)(x)))
#include "kernels/pointwise/loop1.h"
#if EC_IS_SIGNED
#define EC_NAME absolute
#define EC_EXPR(x) ((x) < 0 ? (EC_T)(0 - (EC_U)(x)) : (x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME sign
#define EC_EXPR(x) ((EC_T)(((x) > 0) - ((x) < 0)))
#include "kernels/pointwise/loop1.h"
#define EC_NAME relu
#define EC_EXPR(x) ((x) < 0 ? 0 : (x))
#include "kernels/pointwise/loop1.h"
#else
#define EC_NAME absolute
#define EC_EXPR(x) (x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME sign
#define EC_EXPR(x) ((x) != 0)
#include "kernels/pointwise/loop1.h"
#define EC_NAME relu
#define EC_EXPR(x) (x)
#include "kernels/pointwise/loop1.h"
#endif
#define EC_NAME sign_bit
#define EC_PREDICATE
#if EC_IS_SIGNED
#define EC_EXPR(x) ((x) < 0)
#else
#define EC_EXPR(x) ((void)(x), false)
#endif
#include "kernels/pointwise/loop1.h"
#define EC_NAME same
#define EC_EXPR(x) (x)
#include "kernels/pointwise/loop1.h"
#endif
