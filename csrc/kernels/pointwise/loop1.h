/* A loop with one input: see loop.h. */
#include "kernels/pointwise/loop.h"

EC_LOOP void EC_FN(EC_NAME)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  (void)params;
  if (step[0] == (int64_t)sizeof(EC_OUT) && step[1] == (int64_t)sizeof(EC_T)) {
    EC_OUT *o = (EC_OUT *)(void *)at[0];
    const EC_T *a = (const EC_T *)(const void *)at[1];
    for (int64_t i = 0; i < n; i++) {
      const EC_C x = EC_LOAD(a[i]);
      o[i] = EC_PUT(EC_EXPR(x));
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const EC_C x = EC_LOAD(EC_AT(const EC_T, 1, i));
    EC_AT(EC_OUT, 0, i) = EC_PUT(EC_EXPR(x));
  }
}

#include "kernels/pointwise/end.h"
