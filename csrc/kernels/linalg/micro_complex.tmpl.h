/* One micro-kernel for complex numbers, plain: EC_M_T is the type of a part, EC_M_FN the name. */
static void EC_M_FN(size_t k, const void *a_panel, const void *b_panel, size_t ldb, void *acc,
                    size_t ldacc, bool accumulate) {
  const EC_M_T *a = a_panel, *b = b_panel;
  EC_M_T *out = acc;
  EC_M_T re[COMPLEX_ROWS][COMPLEX_COLS] = {{0}}, im[COMPLEX_ROWS][COMPLEX_COLS] = {{0}};
  for (; k; k--, a += 2 * COMPLEX_ROWS, b += 2 * ldb)
    for (int r = 0; r < COMPLEX_ROWS; r++)
      for (int c = 0; c < COMPLEX_COLS; c++) {
        re[r][c] += a[2 * r] * b[2 * c] - a[2 * r + 1] * b[2 * c + 1];
        im[r][c] += a[2 * r] * b[2 * c + 1] + a[2 * r + 1] * b[2 * c];
      }
  for (int r = 0; r < COMPLEX_ROWS; r++)
    for (int c = 0; c < COMPLEX_COLS; c++) {
      EC_M_T *to = out + 2 * ((size_t)r * ldacc + (size_t)c);
      to[0] = re[r][c] + (accumulate ? to[0] : 0);
      to[1] = im[r][c] + (accumulate ? to[1] : 0);
    }
}
#undef EC_M_FN
#undef EC_M_T
