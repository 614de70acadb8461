/* Fractions, exponents and decimals of floating-point numbers. */
static inline EC_C EC_FN(fraction_of)(EC_C x) {
  int exponent;
  return frexp(x, &exponent);
}

static inline int32_t EC_FN(exponent_of)(EC_C x) {
  int exponent = 0;
  (void)frexp(x, &exponent);
  return isfinite(x) ? exponent : 0;
}

#define EC_NAME fraction
#define EC_EXPR(x) EC_FN(fraction_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME exponent
#define EC_OUT int32_t
#define EC_PUT(x) (x)
#define EC_EXPR(x) EC_FN(exponent_of)(x)
#include "kernels/pointwise/loop1.h"

/* y is an integer. Beyond 10,000 every result is zero or infinite. */
static inline EC_C EC_FN(scaled)(EC_C x, EC_C y) {
  return ldexp(x, (int)(y < -10000 ? -10000 : y > 10000 ? 10000 : y));
}

#define EC_NAME scale
#define EC_EXPR(x, y) EC_FN(scaled)(x, y)
#include "kernels/pointwise/loop2.h"

#define EC_NAME to_decimals /* EC_P(0): ten to the power of the decimals */
#define EC_EXPR(x) (nearbyint((x) * EC_P(0)) / EC_P(0))
#include "kernels/pointwise/loop1.h"
#define EC_NAME to_tens
#define EC_EXPR(x) (nearbyint((x) / EC_P(0)) * EC_P(0))
#include "kernels/pointwise/loop1.h"
