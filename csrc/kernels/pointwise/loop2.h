/* A loop with two inputs: see loop.h. One of them may be constant (step 0). */
#include "kernels/pointwise/loop.h"

EC_LOOP void EC_FN(EC_NAME)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  const int64_t item = (int64_t)sizeof(EC_T);
  (void)params;
  EC_OUT *o = (EC_OUT *)(void *)at[0];
  const EC_T *a = (const EC_T *)(const void *)at[1], *b = (const EC_T *)(const void *)at[2];
  const bool rows = step[0] == (int64_t)sizeof(EC_OUT);
  if (rows && step[1] == item && step[2] == item) {
    for (int64_t i = 0; i < n; i++) {
      const EC_C x = EC_LOAD(a[i]), y = EC_LOAD(b[i]);
      o[i] = EC_PUT(EC_EXPR(x, y));
    }
  } else if (rows && step[1] == item && step[2] == 0) {
    const EC_C y = EC_LOAD(*b);
    for (int64_t i = 0; i < n; i++) {
      const EC_C x = EC_LOAD(a[i]);
      o[i] = EC_PUT(EC_EXPR(x, y));
    }
  } else if (rows && step[1] == 0 && step[2] == item) {
    const EC_C x = EC_LOAD(*a);
    for (int64_t i = 0; i < n; i++) {
      const EC_C y = EC_LOAD(b[i]);
      o[i] = EC_PUT(EC_EXPR(x, y));
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      const EC_C x = EC_LOAD(EC_AT(const EC_T, 1, i)), y = EC_LOAD(EC_AT(const EC_T, 2, i));
      EC_AT(EC_OUT, 0, i) = EC_PUT(EC_EXPR(x, y));
    }
  }
}

#include "kernels/pointwise/end.h"
