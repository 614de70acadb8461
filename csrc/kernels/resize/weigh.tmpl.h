/* Weighted sums along one axis. EC_SUM is the type of sums and weights. */
#if EC_IS_FLOAT
#define EC_SUM EC_C
#define EC_START 0
#define EC_RESULT(x) (x)
#else
#define EC_SUM int32_t
#define EC_START ((1 << a->shift) >> 1)
#define EC_RESULT(x) ((EC_T)((x) >> a->shift < 0 ? 0 : ec_min_i64((x) >> a->shift, EC_HIGHEST)))
#endif

/* Computes one line along the axis, whose elements are the closest in memory. */
static void EC_FN(weigh_line)(const ec_axis *a, EC_T *to, int64_t to_step, const EC_T *from,
                              int64_t from_step) {
  for (int64_t o = 0; o < a->out; o++) {
    const int64_t *at = a->at + ec_axis_entry(a, o), n = a->counts[o];
    const double *w = a->weights + ec_axis_entry(a, o);
    EC_SUM sum = EC_START;
    for (int64_t j = 0; j < n; j++) sum += (EC_SUM)w[j] * from[at[j] * from_step];
    to[o * to_step] = EC_RESULT(sum);
  }
}

/* Computes one output of up to EC_RESIZE_BLOCK adjacent lines. */
static inline void EC_FN(weigh_block)(const ec_axis *a, int64_t o, int64_t n, EC_T *to,
                                      int64_t to_step, const EC_T *from, int64_t from_axis,
                                      int64_t from_step) {
  EC_SUM sums[RESIZE_BLOCK];
  const int64_t first = ec_axis_entry(a, o), *at = a->at + first;
  for (int64_t i = 0; i < n; i++) sums[i] = EC_START;
  for (int64_t j = 0; j < a->counts[o]; j++) {
    const EC_SUM w = (EC_SUM)a->weights[first + j];
    const EC_T *s = from + at[j] * from_axis;
    for (int64_t i = 0; i < n; i++) sums[i] += w * s[i * from_step];
  }
  for (int64_t i = 0; i < n; i++) to[i * to_step] = EC_RESULT(sums[i]);
}

/* Computes `n` lines; steps are in elements. */
static void EC_FN(weigh)(const ec_axis *a, int64_t n, char *dst, int64_t to_axis, int64_t to_step,
                         const char *src, int64_t from_axis, int64_t from_step) {
  EC_T *to = (EC_T *)(void *)dst;
  const EC_T *from = (const EC_T *)(const void *)src;
  if (to_axis < to_step) {
    for (int64_t i = 0; i < n; i++)
      EC_FN(weigh_line)(a, to + i * to_step, to_axis, from + i * from_step, from_axis);
    return;
  }
  for (int64_t i = 0; i < n; i += RESIZE_BLOCK) {
    const int64_t m = ec_min_i64(n - i, RESIZE_BLOCK);
    for (int64_t o = 0; o < a->out; o++) {
      EC_T *t = to + i * to_step + o * to_axis;
      if (to_step == 1 && from_step == 1)
        EC_FN(weigh_block)(a, o, m, t, 1, from + i, from_axis, 1);
      else
        EC_FN(weigh_block)(a, o, m, t, to_step, from + i * from_step, from_axis, from_step);
    }
  }
}

#undef EC_SUM
#undef EC_START
#undef EC_RESULT
