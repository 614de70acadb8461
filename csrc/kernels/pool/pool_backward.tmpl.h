/* Gradients of pooling for one dtype, summed in the accumulator type; integers wrap. */
#if EC_IS_FLOAT
typedef EC_ACC EC_FN(sum);
#else
typedef uint64_t EC_FN(sum);
#endif

/* Adds the gradients of a row at their indices. Returns an index that is out of range, or NULL. An
 * index of -1 is skipped, as in eager. Each index is read once, because sums may overlap the
 * indices. */
static inline __attribute__((always_inline)) const int64_t *EC_FN(add_row)(
    int64_t n, const EC_T *grad, const int64_t step, const int64_t *index, const int64_t index_step,
    int64_t size, EC_FN(sum) *sums) {
  for (int64_t x = 0; x < n; x++) {
    const int64_t at = index[x * index_step];
    if ((uint64_t)at < (uint64_t)size) sums[at] += (EC_FN(sum))EC_LOAD(grad[x * step]);
    else if (at != -1) return &index[x * index_step];
  }
  return NULL;
}

static const int64_t *EC_FN(add_indexed)(const ec_pool *p, const EC_T *grad, const int64_t *index,
                                         int64_t size, EC_FN(sum) *sums) {
  const ec_pool_axis *a = p->axis;
  const int64_t *os = p->out_stride, *xs = p->index_stride, n = a[2].out;
  const int64_t *bad = NULL;
  for (int64_t z = 0; z < a[0].out; z++)
    for (int64_t y = 0; y < a[1].out && !bad; y++) {
      const EC_T *from = grad + z * os[2] + y * os[3];
      const int64_t *at = index + z * xs[2] + y * xs[3];
      if (os[4] == 1 && xs[4] == 1) bad = EC_FN(add_row)(n, from, 1, at, 1, size, sums);
      else bad = EC_FN(add_row)(n, from, os[4], at, xs[4], size, sums);
    }
  return bad;
}

/* Returns the share of each element of a window in the gradient of its average. */
static inline EC_FN(sum) EC_FN(share)(const ec_pool *p, EC_T grad, double size) {
#if EC_IS_FLOAT
  return (EC_FN(sum))((double)EC_LOAD(grad) / (p->divisor ? (double)p->divisor : size));
#else
  int64_t divisor = p->divisor ? p->divisor : size < 0x1p62 ? (int64_t)size : INT64_MAX;
  return divisor == -1 ? 0 - (uint64_t)grad : (uint64_t)(grad / divisor);
#endif
}

/* Adds a number to all elements of one window. */
static inline void EC_FN(add_window)(const ec_pool *p, const ec_window *d, const ec_window *h,
                                     const ec_window *w, EC_FN(sum) share, EC_FN(sum) *sums) {
  for (int64_t k = 0; k < d->count; k++)
    for (int64_t i = 0; i < h->count; i++) {
      EC_FN(sum) *row = sums + w->first +
                        ((d->first + k) * p->axis[1].in + h->first + i) * p->axis[2].in;
      for (int64_t j = 0; j < w->count; j++) row[j] += share;
    }
}

static void EC_FN(add_shares)(const ec_pool *p, const EC_T *grad, EC_FN(sum) *sums) {
  const ec_pool_axis *a = p->axis;
  const int64_t *os = p->out_stride;
  for (int64_t z = 0; z < a[0].out; z++)
    for (int64_t y = 0; y < a[1].out; y++)
      for (int64_t x = 0; x < a[2].out; x++) {
        const ec_window *d = &a[0].windows[z], *h = &a[1].windows[y], *w = &a[2].windows[x];
        if (d->count == 0 || h->count == 0 || w->count == 0) continue;
        double size = (double)d->size * (double)h->size * (double)w->size;
        EC_T g = grad[z * os[2] + y * os[3] + x * os[4]];
        EC_FN(add_window)(p, d, h, w, EC_FN(share)(p, g, size), sums);
      }
}

static void EC_FN(store_plane)(const ec_pool *p, const EC_FN(sum) *sums, EC_T *out) {
  const ec_pool_axis *a = p->axis;
  const int64_t *is = p->in_stride;
  for (int64_t z = 0; z < a[0].in; z++)
    for (int64_t y = 0; y < a[1].in; y++)
      for (int64_t x = 0; x < a[2].in; x++)
        out[z * is[2] + y * is[3] + x * is[4]] = (EC_T)EC_STORE((EC_C)*sums++);
}

/* Processes all planes. Returns an index that is out of range, or NULL. */
static const int64_t *EC_FN(backward)(const ec_pool *p, void *scratch) {
  const int64_t *is = p->in_stride, *os = p->out_stride, *xs = p->index_stride;
  const int64_t row = p->axis[2].in, size = p->axis[0].in * p->axis[1].in * row;
  const bool in_place = sizeof(EC_T) == sizeof(EC_FN(sum)) && is[4] == 1 && is[3] == row &&
                        is[2] == row * p->axis[1].in;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t c = 0; c < p->channels; c++) {
      const EC_T *grad = (const EC_T *)p->from + n * os[0] + c * os[1];
      EC_T *out = (EC_T *)p->to + n * is[0] + c * is[1];
      EC_FN(sum) *sums = in_place ? (void *)out : scratch;
      memset(sums, 0, (size_t)size * sizeof *sums);
      const int64_t *bad = NULL;
      if (p->indices)
        bad = EC_FN(add_indexed)(p, grad, p->indices + n * xs[0] + c * xs[1], size, sums);
      else
        EC_FN(add_shares)(p, grad, sums);
      if (bad) return bad;
      if (!in_place) EC_FN(store_plane)(p, sums, out);
    }
  return NULL;
}
