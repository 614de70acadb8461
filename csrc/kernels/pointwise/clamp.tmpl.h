/* Bounds. A NaN on any side wins; where the bounds cross, the upper one does. */
#if EC_IS_FLOAT
#define EC_MORE(x, y) ((x) < (y) || isnan(y) ? (y) : (x))
#define EC_LESS(x, y) ((x) > (y) || isnan(y) ? (y) : (x))
#else
#define EC_MORE(x, y) ((x) < (y) ? (y) : (x))
#define EC_LESS(x, y) ((x) > (y) ? (y) : (x))
#endif
#define EC_NAME clamp_low
#define EC_EXPR(x, y) EC_MORE(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME clamp_high
#define EC_EXPR(x, y) EC_LESS(x, y)
#include "kernels/pointwise/loop2.h"

#if !EC_IS_BOOL /* eager has no clamp of bool between two bounds */
static inline EC_C EC_FN(clamp_of)(EC_C x, EC_C low, EC_C high) {
  const EC_C raised = EC_MORE(x, low);
  return EC_LESS(raised, high);
}

#define EC_NAME clamp
#define EC_EXPR(x, y, z) EC_FN(clamp_of)(x, y, z)
#include "kernels/pointwise/loop3.h"
#endif
#undef EC_MORE
#undef EC_LESS
