/* Merges the range of `count` elements into *r. */
static void EC_FN(range)(const void *data, size_t count, ec_range *r) {
  const EC_T *x = data;
  double low = r->low, high = r->high;
  for (size_t i = 0; i < count; i++) {
    const double v = (double)EC_LOAD(x[i]);
    if (isfinite(v)) {
      low = v < low ? v : low;
      high = v > high ? v : high;
    } else {
      range_add(r, i, v);
    }
  }
  r->low = low;
  r->high = high;
}
