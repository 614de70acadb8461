/* A micro-kernel. Macros to define before: EC_M_FN its name, EC_M_TARGET its attribute, EC_M_T
 * element, EC_M_V vector and EC_M_U unaligned vector type, EC_M_ROWS rows computed of EC_M_STEP in
 * a panel, EC_M_COLS vectors in a row, EC_M_SET(x) broadcast, EC_M_FMA(a, b, c) = a * b + c; of the
 * columns: EC_M_FROM parameters, EC_M_BEGIN variables, EC_M_LOAD(v) vector v of a row, EC_M_NEXT
 * step to the next row. The two inner loops unroll completely, which keeps `sum` in registers. */
EC_M_TARGET
static void EC_M_FN(size_t k, const void *a_panel, EC_M_FROM, void *acc, size_t ldacc,
                    bool accumulate) {
  const EC_M_T *a = a_panel;
  EC_M_BEGIN;
  EC_M_T *out = acc;
  enum { LANES = sizeof(EC_M_V) / sizeof(EC_M_T) };
  EC_M_V sum[EC_M_ROWS][EC_M_COLS];
#pragma GCC unroll 16
  for (int r = 0; r < EC_M_ROWS; r++)
#pragma GCC unroll 16
    for (int v = 0; v < EC_M_COLS; v++) sum[r][v] = EC_M_SET(0);
  for (; k; k--, a += EC_M_STEP, EC_M_NEXT) {
    EC_M_V row[EC_M_COLS];
#pragma GCC unroll 16
    for (int v = 0; v < EC_M_COLS; v++) row[v] = EC_M_LOAD(v);
#pragma GCC unroll 16
    for (int r = 0; r < EC_M_ROWS; r++) {
      EC_M_V x = EC_M_SET(a[r]);
#pragma GCC unroll 16
      for (int v = 0; v < EC_M_COLS; v++) sum[r][v] = EC_M_FMA(x, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < EC_M_ROWS; r++)
#pragma GCC unroll 16
    for (int v = 0; v < EC_M_COLS; v++) {
      EC_M_U *to = (EC_M_U *)(out + (size_t)r * ldacc + v * LANES);
      if (accumulate) *to += sum[r][v];
      else *to = sum[r][v];
    }
}
#undef EC_M_FN
#undef EC_M_ROWS
