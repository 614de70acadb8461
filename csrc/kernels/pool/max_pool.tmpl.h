/* Max pooling for one dtype. */

static inline bool EC_FN(better)(EC_C v, EC_C best) {
#if EC_IS_FLOAT
  return (v > best) | (v != v); /* the last NaN of a window stays, as in eager */
#else
  return v > best;
#endif
}

/* The largest of one window and where it is. */
static inline void EC_FN(max_window)(const ec_pool *p, const EC_T *plane, const ec_window *h,
                                     const ec_window *w, EC_T *out, int64_t *index) {
  int64_t down = h->step * p->in_stride[2], right = w->step * p->in_stride[3];
  const EC_T *row = plane + h->first * p->in_stride[2] + w->first * p->in_stride[3];
  EC_C best = (EC_C)EC_LOWEST;
  int64_t at = 0, found = 0; /* steps of the window, row-major */
  for (int64_t i = 0; i < h->count; i++, row += down) {
    const EC_T *x = row;
    for (int64_t j = 0; j < w->count; j++, x += right, at++) {
      EC_C v = EC_LOAD(*x);
      bool better = EC_FN(better)(v, best);
      best = better ? v : best;
      found = better ? at : found;
    }
  }
  int64_t columns = w->count ? w->count : 1;
  *out = (EC_T)EC_STORE(best);
  *index = (h->first + found / columns * h->step) * p->axis[1].in + w->first +
           found % columns * w->step;
}

/* Every plane by itself. */
static void EC_FN(max_planes)(const ec_pool *p, void *scratch) {
  (void)scratch;
  const int64_t *is = p->in_stride, *os = p->out_stride, *xs = p->index_stride;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t c = 0; c < p->channels; c++) {
      const EC_T *plane = (const EC_T *)p->in + n * is[0] + c * is[1];
      for (int64_t h = 0; h < p->axis[0].out; h++)
        for (int64_t w = 0; w < p->axis[1].out; w++)
          EC_FN(max_window)(p, plane, &p->axis[0].windows[h], &p->axis[1].windows[w],
                            (EC_T *)p->out + n * os[0] + c * os[1] + h * os[2] + w * os[3],
                            p->indices + n * xs[0] + c * xs[1] + h * xs[2] + w * xs[3]);
    }
}

/* One element of the window for all channels, which are contiguous. */
EC_CLONES static void EC_FN(max_tap)(const EC_T *x, size_t n, int32_t tap, EC_C *restrict best,
                                     int32_t *restrict found) {
  for (size_t c = 0; c < n; c++) {
    EC_C v = EC_LOAD(x[c]);
    bool better = EC_FN(better)(v, best[c]);
    best[c] = better ? v : best[c];
    found[c] = better ? tap : found[c];
  }
}

/* All channels of one output position; `found` counts elements of the window. */
static void EC_FN(max_position)(const ec_pool *p, const EC_T *in, const ec_window *h,
                                const ec_window *w, EC_C *best, int32_t *found) {
  size_t channels = (size_t)p->channels;
  int32_t tap = 0;
  for (size_t c = 0; c < channels; c++) best[c] = (EC_C)EC_LOWEST;
  memset(found, 0, channels * sizeof *found);
  for (int64_t i = 0; i < h->count; i++)
    for (int64_t j = 0; j < w->count; j++)
      EC_FN(max_tap)(in + (h->first + i * h->step) * p->in_stride[2] +
                         (w->first + j * w->step) * p->in_stride[3],
                     channels, tap++, best, found);
}

static void EC_FN(max_channels)(const ec_pool *p, void *scratch) {
  const int64_t *is = p->in_stride, *os = p->out_stride, *xs = p->index_stride;
  int32_t *found = scratch;
  EC_C *best = (EC_C *)(void *)(found + (p->channels + 15) / 16 * 16);
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t y = 0; y < p->axis[0].out; y++)
      for (int64_t x = 0; x < p->axis[1].out; x++) {
        const ec_window *h = &p->axis[0].windows[y], *w = &p->axis[1].windows[x];
        EC_FN(max_position)(p, (const EC_T *)p->in + n * is[0], h, w, best, found);
        EC_T *out = (EC_T *)p->out + n * os[0] + y * os[2] + x * os[3];
        int64_t *index = p->indices + n * xs[0] + y * xs[2] + x * xs[3];
        int64_t columns = w->count ? w->count : 1;
        for (int64_t c = 0; c < p->channels; c++) {
          out[c * os[1]] = (EC_T)EC_STORE(best[c]);
          index[c * xs[1]] = (h->first + found[c] / columns * h->step) * p->axis[1].in + w->first +
                             found[c] % columns * w->step;
        }
      }
}
