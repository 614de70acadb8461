/* A micro-kernel for complex numbers, with the macros of micro.tmpl.h. EC_M_T is the type of a
 * part; rows and ldb count complex numbers. Parts of B stay interleaved: the products with A's real
 * and imaginary parts are summed separately and combined at the end. */
EC_M_TARGET
static void EC_M_FN(size_t k, const void *a_panel, const void *b_panel, size_t ldb, void *acc,
                    size_t ldacc, bool accumulate) {
  enum { ROWS = EC_M_COMPLEX_ROWS, LANES = sizeof(EC_M_V) / sizeof(EC_M_T) };
  const EC_M_T *a = a_panel, *b = b_panel;
  EC_M_T *out = acc;
  EC_M_V re[ROWS][EC_M_COLS], im[ROWS][EC_M_COLS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 16
    for (int v = 0; v < EC_M_COLS; v++) re[r][v] = im[r][v] = EC_M_SET(0);
  for (; k; k--, a += 2 * ROWS, b += 2 * ldb) {
    EC_M_V row[EC_M_COLS];
#pragma GCC unroll 16
    for (int v = 0; v < EC_M_COLS; v++) row[v] = *(const EC_M_U *)(b + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      EC_M_V x = EC_M_SET(a[2 * r]), y = EC_M_SET(a[2 * r + 1]);
#pragma GCC unroll 16
      for (int v = 0; v < EC_M_COLS; v++) {
        re[r][v] = EC_M_FMA(x, row[v], re[r][v]);
        im[r][v] = EC_M_FMA(y, row[v], im[r][v]);
      }
    }
  }
  for (int r = 0; r < ROWS; r++, out += 2 * ldacc) {
    EC_M_T x[EC_M_COLS * LANES], y[EC_M_COLS * LANES];
    memcpy(x, re[r], sizeof x);
    memcpy(y, im[r], sizeof y);
    for (int i = 0; i < EC_M_COLS * LANES; i += 2) {
      out[i] = x[i] - y[i + 1] + (accumulate ? out[i] : 0);
      out[i + 1] = x[i + 1] + y[i] + (accumulate ? out[i + 1] : 0);
    }
  }
}
#undef EC_M_FN
