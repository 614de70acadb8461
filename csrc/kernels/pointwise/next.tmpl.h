/* nextafter in steps of the dtype: the bits of 16-bit numbers of one sign are in their order. */
static inline EC_C EC_FN(next_of)(EC_C x, EC_C y) {
  if (sizeof(EC_T) == sizeof(EC_C)) return nextafter(x, y);
  if (isnan(x) || isnan(y)) return (EC_C)NAN;
  if (x == y) return y;
  const uint16_t bits = (uint16_t)EC_STORE(x), sign = signbit(y) ? 0x8000 : 0;
  if (x == 0) return EC_LOAD((uint16_t)(sign | 1));
  return EC_LOAD((uint16_t)((x < y) == (x > 0) ? bits + 1 : bits - 1));
}

#define EC_NAME next
#define EC_EXPR(x, y) EC_FN(next_of)(x, y)
#include "kernels/pointwise/loop2.h"
