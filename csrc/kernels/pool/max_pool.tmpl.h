/* Max pooling for one dtype. */

static inline bool EC_FN(better)(EC_C v, EC_C best) {
#if EC_IS_FLOAT
  return (v > best) | (v != v); /* the last NaN of a window wins, as in eager */
#else
  return v > best;
#endif
}

/* Returns the row-major position of an element in its plane. */
static inline int64_t EC_FN(position)(const ec_pool *p, int64_t z, int64_t y, int64_t x) {
  return (z * p->axis[1].in + y) * p->axis[2].in + x;
}

/* The largest element so far, and its position. */
typedef struct EC_FN(found) {
  EC_C best;
  int64_t at;
} EC_FN(found);

/* Processes one slice of a window, from its first element on, which has position `at`. */
static inline void EC_FN(max_slice)(const ec_pool *p, const EC_T *row, int64_t at,
                                    const ec_window *h, const ec_window *w, EC_FN(found) * found) {
  int64_t down = h->step * p->in_stride[3], right = w->step * p->in_stride[4];
  int64_t next = h->step * p->axis[2].in;
  EC_C best = found->best;
  int64_t best_at = found->at;
  for (int64_t i = 0; i < h->count; i++, row += down, at += next) {
    const EC_T *x = row;
    for (int64_t j = 0; j < w->count; j++, x += right) {
      EC_C v = EC_LOAD(*x);
      bool better = EC_FN(better)(v, best);
      best = better ? v : best;
      best_at = better ? at + j * w->step : best_at;
    }
  }
  *found = (EC_FN(found)){best, best_at};
}

/* Computes one row of outputs of the same depth and height. */
static void EC_FN(max_row)(const ec_pool *p, const EC_T *plane, const ec_window *d,
                           const ec_window *h, EC_T *out, int64_t *index) {
  int64_t deep = p->in_stride[2], size = p->axis[1].in * p->axis[2].in;
  plane += d->first * deep + h->first * p->in_stride[3];
  int64_t first = EC_FN(position)(p, d->first, h->first, 0);
  for (int64_t i = 0; i < p->axis[2].out; i++) {
    const ec_window *w = &p->axis[2].windows[i];
    const EC_T *x = plane + w->first * p->in_stride[4];
    EC_FN(found) found = {(EC_C)EC_LOWEST, first + w->first};
    if (d->count) EC_FN(max_slice)(p, x, first + w->first, h, w, &found);
    for (int64_t k = 1; k < d->count; k++)
      EC_FN(max_slice)(p, x + k * d->step * deep, first + k * d->step * size + w->first, h, w,
                       &found);
    out[i * p->out_stride[4]] = (EC_T)EC_STORE(found.best);
    index[i * p->index_stride[4]] = found.at;
  }
}

static void EC_FN(max_plane)(const ec_pool *p, const EC_T *plane, EC_T *out, int64_t *index) {
  const ec_pool_axis *a = p->axis;
  const int64_t *os = p->out_stride, *xs = p->index_stride;
  for (int64_t z = 0; z < a[0].out; z++)
    for (int64_t y = 0; y < a[1].out; y++)
      EC_FN(max_row)(p, plane, &a[0].windows[z], &a[1].windows[y], out + z * os[2] + y * os[3],
                     index + z * xs[2] + y * xs[3]);
}

/* Computes plane by plane. */
static void EC_FN(max_planes)(const ec_pool *p, void *scratch) {
  (void)scratch;
  const int64_t *is = p->in_stride, *os = p->out_stride, *xs = p->index_stride;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t c = 0; c < p->channels; c++)
      EC_FN(max_plane)(p, (const EC_T *)p->from + n * is[0] + c * is[1],
                       (EC_T *)p->to + n * os[0] + c * os[1], p->indices + n * xs[0] + c * xs[1]);
}

/* Processes one element of the window for all channels, which are contiguous. */
EC_CLONES static void EC_FN(max_tap)(const EC_T *x, size_t n, int32_t at, EC_C *restrict best,
                                     int32_t *restrict found) {
  for (size_t c = 0; c < n; c++) {
    EC_C v = EC_LOAD(x[c]);
    bool better = EC_FN(better)(v, best[c]);
    best[c] = better ? v : best[c];
    found[c] = better ? at : found[c];
  }
}

/* Computes all channels of one output position. */
static void EC_FN(max_position)(const ec_pool *p, const EC_T *in, const ec_window *d,
                                const ec_window *h, const ec_window *w, EC_C *best,
                                int32_t *found) {
  const int64_t *is = p->in_stride;
  size_t channels = (size_t)p->channels;
  int32_t first = (int32_t)EC_FN(position)(p, d->first, h->first, w->first);
  for (size_t c = 0; c < channels; c++) best[c] = (EC_C)EC_LOWEST;
  for (size_t c = 0; c < channels; c++) found[c] = first;
  for (int64_t k = 0; k < d->count; k++)
    for (int64_t i = 0; i < h->count; i++)
      for (int64_t j = 0; j < w->count; j++) {
        int64_t z = d->first + k * d->step, y = h->first + i * h->step, x = w->first + j * w->step;
        EC_FN(max_tap)(in + z * is[2] + y * is[3] + x * is[4], channels,
                       (int32_t)EC_FN(position)(p, z, y, x), best, found);
      }
}

/* Stores the results of one output position. */
static void EC_FN(max_store)(const ec_pool *p, const EC_C *best, const int32_t *found, EC_T *out,
                             int64_t *index) {
  int64_t os = p->out_stride[1], xs = p->index_stride[1];
  for (int64_t c = 0; c < p->channels; c++) {
    out[c * os] = (EC_T)EC_STORE(best[c]);
    index[c * xs] = found[c];
  }
}

static void EC_FN(max_channels)(const ec_pool *p, void *scratch) {
  const int64_t *is = p->in_stride, *os = p->out_stride, *xs = p->index_stride;
  const ec_pool_axis *a = p->axis;
  int32_t *found = scratch;
  EC_C *best = (EC_C *)(void *)(found + (p->channels + 15) / 16 * 16);
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t z = 0; z < a[0].out; z++)
      for (int64_t y = 0; y < a[1].out; y++)
        for (int64_t x = 0; x < a[2].out; x++) {
          EC_FN(max_position)(p, (const EC_T *)p->from + n * is[0], &a[0].windows[z],
                              &a[1].windows[y], &a[2].windows[x], best, found);
          EC_FN(max_store)(p, best, found,
                           (EC_T *)p->to + n * os[0] + z * os[2] + y * os[3] + x * os[4],
                           p->indices + n * xs[0] + z * xs[2] + y * xs[3] + x * xs[4]);
        }
}
