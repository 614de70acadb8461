/* Upsampling for one dtype; EC_G is the computing type. */

static void EC_FN(nearest)(const upsample *u) {
  const axis *h = &u->axes[0], *w = &u->axes[1];
  const int64_t *is = u->in_stride, *os = u->out_stride;
  for (int64_t n = 0; n < u->batch; n++)
    for (int64_t c = 0; c < u->outer; c++)
      for (int64_t y = 0; y < h->out; y++) {
        const EC_T *row = (const EC_T *)u->in + n * is[0] + c * is[1] + h->taps[y].first * is[2];
        EC_T *to = (EC_T *)u->to + n * os[0] + c * os[1] + y * os[2];
        for (int64_t x = 0; x < w->out; x++)
          for (int64_t i = 0; i < u->inner; i++)
            to[x * os[3] + i] = row[w->taps[x].first * is[3] + i];
      }
}

static inline EC_T EC_FN(rounded)(EC_G x) {
#if EC_IS_FLOAT
  return (EC_T)EC_STORE((EC_C)x);
#else
  return (EC_T)(x + (EC_G)0.5); /* weights are positive: between 0 and the largest number */
#endif
}

/* One output from the four inputs around it. */
static inline EC_T EC_FN(mixed)(const upsample *u, const EC_T *top, const EC_T *bottom,
                                const tap *w, EC_G low, EC_G high) {
  int64_t a = w->first * u->in_stride[3], b = w->second * u->in_stride[3];
  EC_G left = (EC_G)(1 - w->weight), right = (EC_G)w->weight;
  EC_G x = left * (EC_G)EC_LOAD(top[a]) + right * (EC_G)EC_LOAD(top[b]);
  EC_G y = left * (EC_G)EC_LOAD(bottom[a]) + right * (EC_G)EC_LOAD(bottom[b]);
  return EC_FN(rounded)(low * x + high * y);
}

static void EC_FN(bilinear)(const upsample *u) {
  const axis *h = &u->axes[0], *w = &u->axes[1];
  const int64_t *is = u->in_stride, *os = u->out_stride;
  for (int64_t n = 0; n < u->batch; n++)
    for (int64_t c = 0; c < u->outer; c++)
      for (int64_t y = 0; y < h->out; y++) {
        const EC_T *plane = (const EC_T *)u->in + n * is[0] + c * is[1];
        const EC_T *top = plane + h->taps[y].first * is[2];
        const EC_T *bottom = plane + h->taps[y].second * is[2];
        EC_T *to = (EC_T *)u->to + n * os[0] + c * os[1] + y * os[2];
        EC_G low = (EC_G)(1 - h->taps[y].weight), high = (EC_G)h->taps[y].weight;
        for (int64_t x = 0; x < w->out; x++)
          for (int64_t i = 0; i < u->inner; i++)
            to[x * os[3] + i] = EC_FN(mixed)(u, top + i, bottom + i, &w->taps[x], low, high);
      }
}
