/* Running extremes and their positions; EC_BEATS(x, y) is the order. The last of equal elements
 * wins, and from the first NaN on the latest NaN. */
#if EC_IS_FLOAT
#define EC_NAN(v) ((v) != (v))
#else
#define EC_NAN(v) false
#endif

static void EC_MFN(scan)(const scan_line *l) {
  EC_T *out = (EC_T *)l->dst;
  for (int64_t j = 0; j < l->k; j++) {
    const EC_T *x = (const EC_T *)l->src + j;
    EC_C best = EC_LOAD(x[0]);
    for (int64_t i = 0, at = 0; i < l->n; i++) {
      EC_C v = EC_LOAD(x[i * l->ss]);
      bool take = EC_NAN(v) || (!EC_NAN(best) && !EC_BEATS(best, v));
      best = take ? v : best;
      at = take ? i : at;
      out[i * l->ds + j] = EC_STORE(best);
      l->at[i * l->as + j] = at;
    }
  }
}
#undef EC_NAN
