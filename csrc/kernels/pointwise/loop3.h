/* A loop with three inputs: see loop.h. The last two may be constant (step 0). */
#include "kernels/pointwise/loop.h"

EC_LOOP void EC_FN(EC_NAME)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  const int64_t item = (int64_t)sizeof(EC_T);
  (void)params;
  EC_OUT *o = (EC_OUT *)(void *)at[0];
  const EC_T *a = (const EC_T *)(const void *)at[1], *b = (const EC_T *)(const void *)at[2];
  const EC_T *d = (const EC_T *)(const void *)at[3];
  const bool rows = step[0] == (int64_t)sizeof(EC_OUT) && step[1] == item;
  if (rows && step[2] == item && step[3] == item) {
    for (int64_t i = 0; i < n; i++) {
      const EC_C x = EC_LOAD(a[i]), y = EC_LOAD(b[i]), z = EC_LOAD(d[i]);
      o[i] = EC_PUT(EC_EXPR(x, y, z));
    }
    return;
  }
  if (rows && step[2] == 0 && step[3] == 0) {
    const EC_C y = EC_LOAD(EC_AT(const EC_T, 2, 0)), z = EC_LOAD(EC_AT(const EC_T, 3, 0));
    for (int64_t i = 0; i < n; i++) {
      const EC_C x = EC_LOAD(a[i]);
      o[i] = EC_PUT(EC_EXPR(x, y, z));
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const EC_C x = EC_LOAD(EC_AT(const EC_T, 1, i)), y = EC_LOAD(EC_AT(const EC_T, 2, i));
    const EC_C z = EC_LOAD(EC_AT(const EC_T, 3, i));
    EC_AT(EC_OUT, 0, i) = EC_PUT(EC_EXPR(x, y, z));
  }
}

#include "kernels/pointwise/end.h"
