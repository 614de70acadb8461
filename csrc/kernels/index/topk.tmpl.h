/* The k best elements of a row, in a heap with the worst of them at the root. NaN is the largest;
 * of equal elements the first is better. */
#if EC_IS_FLOAT
#define EC_NAN(v) ((v) != (v))
#else
#define EC_NAN(v) false
#endif

static inline bool EC_FN(topk_beats)(EC_C v, EC_C w, bool largest) {
  return largest ? v > w || (EC_NAN(v) && !EC_NAN(w)) : v < w || (!EC_NAN(v) && EC_NAN(w));
}

static inline bool EC_FN(topk_better)(EC_C v, int64_t i, EC_C w, int64_t j, bool largest) {
  return EC_FN(topk_beats)(v, w, largest) || (i < j && !EC_FN(topk_beats)(w, v, largest));
}

/* Returns the first position from `i` on with an element better than `worst`, or n. */
static inline __attribute__((always_inline)) int64_t EC_FN(topk_next)(const topk_row *r, int64_t i,
                                                                      EC_C worst, int64_t step,
                                                                      bool largest) {
  for (const char *x = r->x + i * step; i < r->n; i++, x += step)
    if (EC_FN(topk_beats)(EC_LOAD(*(const EC_T *)x), worst, largest)) return i;
  return i;
}

static int64_t EC_FN(topk_seek)(const topk_row *r, int64_t i, EC_C worst) {
  const int64_t item = (int64_t)sizeof(EC_T);
  if (r->x_step != item) return EC_FN(topk_next)(r, i, worst, r->x_step, r->largest);
  return r->largest ? EC_FN(topk_next)(r, i, worst, item, true)
                    : EC_FN(topk_next)(r, i, worst, item, false);
}

/* Sinks the entry at `at` until both children are better. */
static void EC_FN(topk_sink)(EC_C *v, int64_t *p, int64_t at, int64_t n, bool largest) {
  EC_C value = v[at];
  int64_t position = p[at];
  for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
    int64_t next = child + 1;
    if (next < n && EC_FN(topk_better)(v[child], p[child], v[next], p[next], largest)) child = next;
    if (!EC_FN(topk_better)(value, position, v[child], p[child], largest)) break;
    v[at] = v[child];
    p[at] = p[child];
    at = child;
  }
  v[at] = value;
  p[at] = position;
}

static void EC_FN(topk_row)(const topk_row *r) {
  EC_C *v = r->heap;
  int64_t *p = r->positions, k = r->k;
  for (int64_t i = 0; i < k; i++) {
    v[i] = EC_LOAD(*(const EC_T *)(r->x + i * r->x_step));
    p[i] = i;
  }
  for (int64_t at = k / 2; at-- > 0;) EC_FN(topk_sink)(v, p, at, k, r->largest);
  for (int64_t i = k; (i = EC_FN(topk_seek)(r, i, v[0])) < r->n; i++) {
    v[0] = EC_LOAD(*(const EC_T *)(r->x + i * r->x_step));
    p[0] = i;
    EC_FN(topk_sink)(v, p, 0, k, r->largest);
  }
  for (int64_t left = k; left-- > 0;) { /* moves the worst to the end each time */
    *(EC_T *)(r->values + left * r->value_step) = EC_STORE(v[0]);
    *(int64_t *)(void *)(r->indices + left * r->index_step) = p[0];
    v[0] = v[left];
    p[0] = p[left];
    EC_FN(topk_sink)(v, p, 0, left ? left : 1, r->largest);
  }
}

#undef EC_NAN
