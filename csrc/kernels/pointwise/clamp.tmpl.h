/* Bounds. A NaN on any side wins; if the bounds cross, the upper one wins. Selections without a
 * branch vectorise. */
#if EC_IS_FLOAT
#define EC_MORE(x, y) (((x) < (y)) | ((y) != (y)) ? (y) : (x))
#define EC_LESS(x, y) (((x) > (y)) | ((y) != (y)) ? (y) : (x))
#else
#define EC_MORE(x, y) ((x) < (y) ? (y) : (x))
#define EC_LESS(x, y) ((x) > (y) ? (y) : (x))
#endif
#define EC_NAME clamp_low
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x, y) EC_MORE(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME clamp_high
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x, y) EC_LESS(x, y)
#include "kernels/pointwise/loop2.h"

#if !EC_IS_BOOL /* eager has no clamp of bool between two bounds */
static inline EC_C EC_FN(clamp_of)(EC_C x, EC_C low, EC_C high) {
  const EC_C raised = EC_MORE(x, low);
  return EC_LESS(raised, high);
}

#define EC_NAME clamp_any
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x, y, z) EC_FN(clamp_of)(x, y, z)
#include "kernels/pointwise/loop3.h"

/* Clamps between two numbers that are not NaN: two selections per element. */
EC_CLONES static void EC_FN(clamp)(int64_t n, char *const *at, const int64_t *step,
                                   ec_params *params) {
  const EC_T *a = (const EC_T *)(const void *)at[1];
  const EC_C low = *(const EC_T *)(const void *)at[2], high = *(const EC_T *)(const void *)at[3];
  EC_T *o = (EC_T *)(void *)at[0];
  const bool rows = step[0] == (int64_t)sizeof(EC_T) && step[1] == step[0];
  if (!rows || step[2] != 0 || step[3] != 0 || !(low == low) || !(high == high)) {
    EC_FN(clamp_any)(n, at, step, params);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const EC_C x = a[i], raised = x < low ? low : x;
    o[i] = raised > high ? high : raised;
  }
}
#endif
#undef EC_MORE
#undef EC_LESS
