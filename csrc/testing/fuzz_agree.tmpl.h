/* Returns the largest difference of two arrays, relative to the largest finite element. Infinity if
 * NaN or infinities are elsewhere; `is_exact`: for any other bits but those of two NaN. */
static double EC_FN(error)(const void *one, const void *other, int64_t n, bool is_exact) {
  const EC_T *a = one, *b = other;
  double most = 0, scale = 0;
  for (int64_t i = 0; i < n; i++) {
    const double x = (double)EC_LOAD(a[i]), y = (double)EC_LOAD(b[i]);
    if (isnan(x) && isnan(y)) continue;
    if (is_exact ? memcmp(&a[i], &b[i], sizeof a[i]) != 0 : !isfinite(x - y) && x != y)
      return INFINITY;
    if (isfinite(x)) scale = fmax(scale, fabs(x));
    if (x != y) most = fmax(most, fabs(x - y));
  }
  return most ? most / (scale ? scale : most) : 0;
}
