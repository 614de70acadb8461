/* Random windows for one dtype, with eager's rounding steps. */

static inline EC_C EC_FN(rounded)(EC_C x) { return EC_LOAD(EC_STORE(x)); }

/* Computes the windows of an axis. Returns false if one is not inside the input. */
static bool EC_FN(fractional_windows)(const ec_pool_axis *a, const void *sample) {
  int64_t last = a->in - a->kernel;
  EC_C s = EC_LOAD(*(const EC_T *)sample), alpha = 0;
  if (a->out > 1)
    alpha = EC_FN(rounded)(EC_FN(rounded)((EC_C)last) / EC_FN(rounded)((EC_C)(a->out - 1)));
  EC_C start = EC_FN(rounded)(s * alpha);
  if (a->out > 1 && !(start > -0x1p62f && start < 0x1p62f)) return false;
  for (int64_t o = 0; o < a->out; o++) {
    EC_C i = EC_FN(rounded)((EC_C)o);
    EC_C end = EC_FN(rounded)(EC_FN(rounded)(i + s) * alpha);
    if (o < a->out - 1 && !(end > -0x1p62f && end < 0x1p62f)) return false;
    int64_t first = o < a->out - 1 ? (int64_t)end - (int64_t)start : last;
    if (first < 0 || first > last) return false;
    a->windows[o] = (ec_window){first, a->kernel, 1, a->kernel};
  }
  return true;
}
