/* Powers. Integer powers wrap; with a negative exponent only powers of 1 and -1 are non-zero. */
#if EC_IS_FLOAT || EC_IS_COMPLEX
#define EC_NAME power
#define EC_EXPR(x, y) pow(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME square
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x) ec_times(x, x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME cube
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x) ec_times(ec_times(x, x), x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME root
#define EC_EXPR(x) sqrt(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME inverse_root
#define EC_EXPR(x) ec_over((EC_C)1, sqrt(x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME inverse
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x) ec_over((EC_C)1, x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME inverse_square
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x) ec_over((EC_C)1, ec_times(x, x))
#include "kernels/pointwise/loop1.h"
#else

static inline EC_T EC_FN(int_power)(EC_T x, EC_T y) {
#if EC_IS_SIGNED
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;
#endif
  EC_U result = 1, factor = (EC_U)x;
  for (uint64_t e = (uint64_t)y; e; e >>= 1) {
    if (e & 1) result *= factor;
    factor *= factor;
  }
  return (EC_T)result;
}

#define EC_NAME any_power
#define EC_EXPR(x, y) EC_FN(int_power)(x, y)
#include "kernels/pointwise/loop2.h"

/* Powers of one number use a table. */
static void EC_FN(power)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  enum { POWERS = 64 };
  EC_T power[POWERS];
  if (step[1] != 0 || n < POWERS) {
    EC_FN(any_power)(n, at, step, params);
    return;
  }
  const EC_T x = *(const EC_T *)(const void *)at[1];
  for (int e = 0; e < POWERS; e++) power[e] = EC_FN(int_power)(x, (EC_T)e);
  for (int64_t i = 0; i < n; i++) {
    const EC_T e = *(const EC_T *)(const void *)(at[2] + i * step[2]);
    EC_T *to = (EC_T *)(void *)(at[0] + i * step[0]);
    *to = (uint64_t)e < POWERS ? power[e] : EC_FN(int_power)(x, e);
  }
}
#endif
