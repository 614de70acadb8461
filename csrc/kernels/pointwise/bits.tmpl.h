/* Bits of integers; for bool the logical operations. */
#define EC_NAME bit_and
#define EC_EXPR(x, y) ((EC_C)((x) & (y)))
#include "kernels/pointwise/loop2.h"
#define EC_NAME bit_or
#define EC_EXPR(x, y) ((EC_C)((x) | (y)))
#include "kernels/pointwise/loop2.h"
#define EC_NAME bit_xor
#define EC_EXPR(x, y) ((EC_C)((x) ^ (y)))
#include "kernels/pointwise/loop2.h"
#if !EC_IS_BOOL
/* A count that is negative or at least the width shifts all bits out. Vectors of bytes have no
 * per-element shift, so they shift by 1, 2 and 4 according to the bits of the count. */
#define EC_WIDTH (8 * (int)sizeof(EC_T))
static inline EC_T EC_FN(left_of)(EC_T x, EC_T count) {
  const bool far = (EC_U)count >= EC_WIDTH;
  const EC_U shifted = (EC_U)x << ((EC_U)count & (EC_WIDTH - 1));
  if (sizeof(EC_T) > 1) return far ? 0 : (EC_T)shifted;
  for (int k = 0; k < 3; k++) x = (EC_T)(count >> k & 1 ? (EC_U)x << (1 << k) : (EC_U)x);
  return far ? 0 : x;
}

static inline EC_T EC_FN(right_of)(EC_T x, EC_T count) {
  const bool far = (EC_U)count >= EC_WIDTH;
  const EC_T shifted = (EC_T)(x >> ((EC_U)count & (EC_WIDTH - 1)));
#if EC_IS_SIGNED
  const EC_T none = (EC_T)(x < 0 ? -1 : 0);
#else
  const EC_T none = 0;
#endif
  if (sizeof(EC_T) > 1) return far ? none : shifted;
  for (int k = 0; k < 3; k++) x = (EC_T)(count >> k & 1 ? x >> (1 << k) : x);
  return far ? none : x;
}

#define EC_NAME left_shift
#define EC_LOOP_CLONES
#define EC_EXPR(x, y) EC_FN(left_of)(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME right_shift
#define EC_LOOP_CLONES
#define EC_EXPR(x, y) EC_FN(right_of)(x, y)
#include "kernels/pointwise/loop2.h"
#undef EC_WIDTH
#endif

#define EC_NAME bit_not
#if EC_IS_BOOL
#define EC_EXPR(x) (!(x))
#else
#define EC_EXPR(x) ((EC_C)~(x))
#endif
#include "kernels/pointwise/loop1.h"
