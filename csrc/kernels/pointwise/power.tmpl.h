/* Powers. Integer powers wrap; a negative exponent leaves 1 and -1 only. */
#if EC_IS_FLOAT || EC_IS_COMPLEX
#define EC_NAME power
#define EC_EXPR(x, y) pow(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME square
#define EC_EXPR(x) ((x) * (x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME cube
#define EC_EXPR(x) ((x) * (x) * (x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME root
#define EC_EXPR(x) sqrt(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME inverse_root
#define EC_EXPR(x) (1 / sqrt(x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME inverse
#define EC_EXPR(x) (1 / (x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME inverse_square
#define EC_EXPR(x) (1 / ((x) * (x)))
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

#define EC_NAME power
#define EC_EXPR(x, y) EC_FN(int_power)(x, y)
#include "kernels/pointwise/loop2.h"
#endif
