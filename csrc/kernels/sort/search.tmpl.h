/* The insertion points of values in sorted rows. Comparisons are those of eager, so that NaN and
 * unsorted rows have the same results. */
static void EC_FN(search)(const search_row *r) {
  const EC_T *bounds = r->bounds, *values = r->values;
  for (int64_t i = 0; i < r->n; i++) {
    EC_C v = EC_LOAD(values[i * r->step]);
    int64_t low = 0, high = r->size;
    while (low < high) {
      int64_t mid = low + (high - low) / 2;
      EC_C b = EC_LOAD(bounds[r->sorter ? r->sorter[mid] : mid]);
      if (r->right ? b > v : b >= v) high = mid;
      else low = mid + 1;
    }
    r->out[i] = low;
  }
}
