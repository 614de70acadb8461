/* Comparisons: bool from two numbers. */
#define EC_NAME eq
#define EC_PREDICATE
#if EC_IS_BOOL /* logical_not */
#define EC_LOOP_CLONES
#endif
#define EC_EXPR(x, y) ((x) == (y))
#include "kernels/pointwise/loop2.h"
#define EC_NAME ne
#define EC_PREDICATE
#define EC_EXPR(x, y) ((x) != (y))
#include "kernels/pointwise/loop2.h"
#if !EC_IS_COMPLEX
#define EC_NAME lt
#define EC_PREDICATE
#define EC_EXPR(x, y) ((x) < (y))
#include "kernels/pointwise/loop2.h"
#define EC_NAME le
#define EC_PREDICATE
#define EC_EXPR(x, y) ((x) <= (y))
#include "kernels/pointwise/loop2.h"
#define EC_NAME gt
#define EC_PREDICATE
#define EC_EXPR(x, y) ((x) > (y))
#include "kernels/pointwise/loop2.h"
#define EC_NAME ge
#define EC_PREDICATE
#define EC_EXPR(x, y) ((x) >= (y))
#include "kernels/pointwise/loop2.h"
#endif
