/* Average pooling for one dtype; integers wrap and divide towards zero. */
#if EC_IS_FLOAT
typedef double EC_FN(total);
#else
typedef uint64_t EC_FN(total);
#endif

/* Divides by `size`, which is what both axes count together, or by the call's own divisor. */
static inline EC_T EC_FN(average)(const ec_pool *p, EC_FN(total) sum, double size) {
#if EC_IS_FLOAT
  return (EC_T)EC_STORE((EC_C)(sum / (p->divisor ? (double)p->divisor : size)));
#else
  int64_t divisor = p->divisor ? p->divisor : size < 0x1p62 ? (int64_t)size : INT64_MAX;
  if (divisor == -1) return (EC_T)(0 - sum); /* dividing the least number by -1 overflows */
  return (EC_T)((int64_t)sum / divisor);
#endif
}

static inline EC_FN(total) EC_FN(sum_window)(const ec_pool *p, const EC_T *plane,
                                             const ec_window *h, const ec_window *w) {
  const EC_T *row = plane + h->first * p->in_stride[2] + w->first * p->in_stride[3];
  EC_FN(total) sum = 0, other = 0;
  for (int64_t i = 0; i < h->count; i++, row += p->in_stride[2]) {
    const EC_T *x = row;
    int64_t j = 0;
    for (; j + 2 <= w->count; j += 2, x += 2 * p->in_stride[3]) {
      sum += (EC_FN(total))EC_LOAD(x[0]);
      other += (EC_FN(total))EC_LOAD(x[p->in_stride[3]]);
    }
    if (j < w->count) sum += (EC_FN(total))EC_LOAD(*x);
  }
  return sum + other;
}

/* Every plane by itself. */
static void EC_FN(avg_planes)(const ec_pool *p, void *scratch) {
  (void)scratch;
  const int64_t *is = p->in_stride, *os = p->out_stride;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t c = 0; c < p->channels; c++) {
      const EC_T *plane = (const EC_T *)p->in + n * is[0] + c * is[1];
      for (int64_t y = 0; y < p->axis[0].out; y++)
        for (int64_t x = 0; x < p->axis[1].out; x++) {
          const ec_window *h = &p->axis[0].windows[y], *w = &p->axis[1].windows[x];
          bool empty = h->count == 0 || w->count == 0;
          ((EC_T *)p->out)[n * os[0] + c * os[1] + y * os[2] + x * os[3]] =
              empty ? (EC_T)EC_STORE(0)
                    : EC_FN(average)(p, EC_FN(sum_window)(p, plane, h, w),
                                     (double)h->size * (double)w->size);
        }
    }
}

EC_CLONES static void EC_FN(add_channels)(const EC_T *x, size_t n, EC_FN(total) *restrict sums) {
  for (size_t c = 0; c < n; c++) sums[c] += (EC_FN(total))EC_LOAD(x[c]);
}

/* All channels of one output position side by side. */
static void EC_FN(avg_channels)(const ec_pool *p, void *scratch) {
  const int64_t *is = p->in_stride, *os = p->out_stride;
  EC_FN(total) *sums = scratch;
  size_t channels = (size_t)p->channels;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t y = 0; y < p->axis[0].out; y++)
      for (int64_t x = 0; x < p->axis[1].out; x++) {
        const ec_window *h = &p->axis[0].windows[y], *w = &p->axis[1].windows[x];
        bool empty = h->count == 0 || w->count == 0;
        double size = empty ? 1 : (double)h->size * (double)w->size;
        memset(sums, 0, channels * sizeof *sums);
        for (int64_t i = 0; i < h->count; i++)
          for (int64_t j = 0; j < w->count; j++)
            EC_FN(add_channels)((const EC_T *)p->in + n * is[0] + (h->first + i) * is[2] +
                                    (w->first + j) * is[3],
                                channels, sums);
        EC_T *out = (EC_T *)p->out + n * os[0] + y * os[2] + x * os[3];
        for (size_t c = 0; c < channels; c++)
          out[(int64_t)c * os[1]] = EC_FN(average)(p, sums[c], size);
      }
}
