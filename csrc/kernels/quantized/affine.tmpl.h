/* Loops for one floating dtype, over elements of its compute type: at[1] the input, at[2] scales,
 * at[3] zero points, the last two constant (step 0) or strided. Each step of torch's chain rounds
 * to the dtype, which only matters for float16 and bfloat16. */
#define EC_FIT(x) EC_LOAD(EC_STORE(x))
#define EC_AT(type, k, i) (*(type *)(void *)(at[k] + (i) * step[k]))

/* Rounds to an integer, ties to even, without a function call: adding 2^(digits) drops the
 * fraction. */
static inline EC_C EC_FN(even)(EC_C x) {
  const EC_C big = sizeof(EC_C) == 4 ? (EC_C)0x1p23 : (EC_C)0x1p52;
  const EC_C size = x < 0 ? -x : x, whole = (size + big) - big;
  return size < big ? (x < 0 ? -whole : whole) : x;
}

typedef struct EC_FN(bounds) {
  EC_C low, high;
} EC_FN(bounds);

static inline EC_C EC_FN(bounded)(EC_C q, EC_FN(bounds) b) {
  const EC_C raised = q < b.low ? b.low : q; /* NaN stays */
  return raised > b.high ? b.high : raised;
}

/* Returns the bounds of a call, rounded to the dtype like every scalar operand. */
static inline EC_FN(bounds) EC_FN(bounds_of)(const ec_params *p) {
  return (EC_FN(bounds)){EC_FIT((EC_C)p->v[0].i), EC_FIT((EC_C)p->v[1].i)};
}

#define EC_NAME quantize_early
#define EC_X EC_C
#define EC_Q(x, s, z) EC_FN(bounded)(EC_FIT(EC_FN(even)(EC_FIT((x) * (s))) + (z)), bounds)
#include "kernels/quantized/loop.h"
#define EC_NAME quantize_late
#define EC_X EC_C
#define EC_Q(x, s, z) EC_FN(bounded)(EC_FN(even)(EC_FIT(EC_FIT((x) * (s)) + (z))), bounds)
#include "kernels/quantized/loop.h"
#define EC_NAME dequantize
#define EC_X EC_C
#define EC_Q(x, s, z) EC_FIT(EC_FIT((x) - (z)) * (s))
#include "kernels/quantized/loop.h"

/* Returns the difference of integers, wrapped to their common type: v[0] is 64 minus its bits, v[1]
 * is true if it is unsigned. */
static inline int64_t EC_FN(difference)(int64_t x, int64_t z, const ec_params *p) {
  const uint64_t d = ((uint64_t)x - (uint64_t)z) << p->v[0].i;
  return p->v[1].i ? (int64_t)(d >> p->v[0].i) : (int64_t)d >> p->v[0].i;
}
#define EC_NAME dequantize_whole
#define EC_X int64_t
#define EC_Q(x, s, z) EC_FIT(EC_FIT((EC_C)EC_FN(difference)(x, z, params)) * (s))
#include "kernels/quantized/loop.h"

static void EC_FN(invert)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  (void)params;
  for (int64_t i = 0; i < n; i++) EC_AT(EC_C, 0, i) = EC_FIT((EC_C)1 / EC_AT(const EC_C, 1, i));
}

#undef EC_FIT
#undef EC_AT
