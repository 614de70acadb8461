/* Sixteen parallel sums, so that the compiler uses vector registers. A chunk of integers of one or
 * two bytes fits in 32 bits. */
#include "kernels/reduce/wide.tmpl.h"
#undef EC_LANE
#if EC_IS_FLOAT || EC_IS_COMPLEX
#define EC_LANE EC_WIDE
#else
#define EC_LANE __typeof__(__builtin_choose_expr(sizeof(EC_T) < 4, (int32_t)0, (EC_WIDE)0))
#endif

EC_CLONES static EC_WIDE EC_FN(sum_row)(const EC_T *x, int64_t n) {
  EC_LANE lane[SUM_LANES] = {0};
  EC_WIDE sum = 0;
  int64_t i = 0;
  for (; i + SUM_LANES <= n; i += SUM_LANES)
    for (int64_t j = 0; j < SUM_LANES; j++) lane[j] += (EC_LANE)EC_LOAD(x[i + j]);
  for (; i < n; i++) sum += (EC_WIDE)EC_LOAD(x[i]);
  EC_WIDE part[4]; /* four chains of additions */
  for (int64_t j = 0; j < 4; j++)
    part[j] = ((EC_WIDE)lane[j] + (EC_WIDE)lane[j + 4]) +
              ((EC_WIDE)lane[j + 8] + (EC_WIDE)lane[j + 12]);
  return sum + ((part[0] + part[1]) + (part[2] + part[3]));
}

EC_CLONES static void EC_FN(sum_columns)(EC_WIDE *restrict a, const EC_T *restrict x, int64_t k) {
  int64_t i = 0;
  for (; i + SUM_LANES <= k; i += SUM_LANES)
    for (int64_t j = 0; j < SUM_LANES; j++) a[i + j] += (EC_WIDE)EC_LOAD(x[i + j]);
  for (; i < k; i++) a[i] += (EC_WIDE)EC_LOAD(x[i]);
}
