/* Average pooling for one dtype; integers wrap and divide towards zero. */
#if EC_IS_FLOAT
typedef double EC_FN(total);
#else
typedef uint64_t EC_FN(total);
#endif

/* Divides by `size`, the window's size over all axes, or by the call's own divisor. */
static inline EC_T EC_FN(average)(const ec_pool *p, EC_FN(total) sum, double size) {
#if EC_IS_FLOAT
  return (EC_T)EC_STORE((EC_C)(sum / (p->divisor ? (double)p->divisor : size)));
#else
  int64_t divisor = p->divisor ? p->divisor : size < 0x1p62 ? (int64_t)size : INT64_MAX;
  if (divisor == -1) return (EC_T)(0 - sum); /* dividing the minimum by -1 overflows */
  return (EC_T)((int64_t)sum / divisor);
#endif
}

/* Sums one slice of a window, from its first element on. */
static inline EC_FN(total) EC_FN(sum_slice)(const ec_pool *p, const EC_T *row, int64_t rows,
                                            int64_t columns) {
  int64_t down = p->in_stride[3], right = p->in_stride[4];
  EC_FN(total) sum = 0, other = 0;
  for (int64_t i = 0; i < rows; i++, row += down) {
    const EC_T *x = row;
    int64_t j = 0;
    for (; j + 2 <= columns; j += 2, x += 2 * right) {
      sum += (EC_FN(total))EC_LOAD(x[0]);
      other += (EC_FN(total))EC_LOAD(x[right]);
    }
    if (j < columns) sum += (EC_FN(total))EC_LOAD(*x);
  }
  return sum + other;
}

/* Returns the size of the product of two windows; 0: none of it is inside the input. */
static inline double EC_FN(crossing)(const ec_window *a, const ec_window *b) {
  return a->count && b->count ? (double)a->size * (double)b->size : 0;
}

/* Computes one row of outputs of the same depth and height. */
static void EC_FN(avg_row)(const ec_pool *p, const EC_T *plane, const ec_window *d,
                           const ec_window *h, EC_T *out) {
  const EC_T *row = plane + d->first * p->in_stride[2] + h->first * p->in_stride[3];
  int64_t deep = p->in_stride[2], right = p->in_stride[4];
  double rows = EC_FN(crossing)(d, h);
  for (int64_t i = 0; i < p->axis[2].out; i++, out += p->out_stride[4]) {
    const ec_window *w = &p->axis[2].windows[i];
    if (rows == 0 || w->count == 0) {
      *out = (EC_T)EC_STORE(0);
      continue;
    }
    const EC_T *x = row + w->first * right;
    EC_FN(total) sum = EC_FN(sum_slice)(p, x, h->count, w->count);
    for (int64_t k = 1; k < d->count; k++)
      sum += EC_FN(sum_slice)(p, x + k * deep, h->count, w->count);
    *out = EC_FN(average)(p, sum, rows * (double)w->size);
  }
}

static void EC_FN(avg_plane)(const ec_pool *p, const EC_T *plane, EC_T *out) {
  const ec_pool_axis *a = p->axis;
  for (int64_t z = 0; z < a[0].out; z++)
    for (int64_t y = 0; y < a[1].out; y++)
      EC_FN(avg_row)(p, plane, &a[0].windows[z], &a[1].windows[y],
                     out + z * p->out_stride[2] + y * p->out_stride[3]);
}

/* Computes plane by plane. */
static void EC_FN(avg_planes)(const ec_pool *p, void *scratch) {
  (void)scratch;
  const int64_t *is = p->in_stride, *os = p->out_stride;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t c = 0; c < p->channels; c++)
      EC_FN(avg_plane)(p, (const EC_T *)p->from + n * is[0] + c * is[1],
                       (EC_T *)p->to + n * os[0] + c * os[1]);
}

EC_CLONES static void EC_FN(add_channels)(const EC_T *x, size_t n, EC_FN(total) *restrict sums) {
  for (size_t c = 0; c < n; c++) sums[c] += (EC_FN(total))EC_LOAD(x[c]);
}

/* Computes all channels of one output position; channels are adjacent. */
static void EC_FN(avg_position)(const ec_pool *p, const EC_T *in, const ec_window *d,
                                const ec_window *h, const ec_window *w, EC_FN(total) *sums) {
  const int64_t *is = p->in_stride;
  size_t channels = (size_t)p->channels;
  memset(sums, 0, channels * sizeof *sums);
  for (int64_t k = 0; k < d->count; k++)
    for (int64_t i = 0; i < h->count; i++)
      for (int64_t j = 0; j < w->count; j++)
        EC_FN(add_channels)(in + (d->first + k) * is[2] + (h->first + i) * is[3] +
                                (w->first + j) * is[4],
                            channels, sums);
}

static void EC_FN(avg_channels)(const ec_pool *p, void *scratch) {
  const int64_t *is = p->in_stride, *os = p->out_stride;
  const ec_pool_axis *a = p->axis;
  EC_FN(total) *sums = scratch;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t z = 0; z < a[0].out; z++)
      for (int64_t y = 0; y < a[1].out; y++)
        for (int64_t x = 0; x < a[2].out; x++) {
          const ec_window *d = &a[0].windows[z], *h = &a[1].windows[y], *w = &a[2].windows[x];
          double size = w->count ? EC_FN(crossing)(d, h) * (double)w->size : 0;
          EC_FN(avg_position)(p, (const EC_T *)p->from + n * is[0], d, h, w, sums);
          EC_T *out = (EC_T *)p->to + n * os[0] + z * os[2] + y * os[3] + x * os[4];
          for (int64_t c = 0; c < p->channels; c++)
            out[c * os[1]] = EC_FN(average)(p, sums[c], size == 0 ? 1 : size);
        }
}
