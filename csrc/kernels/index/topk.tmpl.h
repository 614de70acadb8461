/* The k best of a row, in a heap whose root is the worst of those kept; NaN is the largest of
 * all, and of equals the first is better. */
#if EC_IS_FLOAT
#define EC_NAN(v) ((v) != (v))
#else
#define EC_NAN(v) false
#endif

static inline bool EC_FN(topk_better)(EC_C v, int64_t i, EC_C w, int64_t j, bool largest) {
  bool above = v > w || (EC_NAN(v) && !EC_NAN(w));
  bool below = v < w || (!EC_NAN(v) && EC_NAN(w));
  return above || below ? (largest ? above : below) : i < j;
}

/* Lets the entry at `at` sink until both below it are better. */
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
  for (int64_t i = 0; i < r->n; i++) {
    EC_C x = EC_LOAD(*(const EC_T *)(r->x + i * r->x_step));
    if (i < k) {
      v[i] = x;
      p[i] = i;
      if (i == k - 1)
        for (int64_t at = k / 2; at-- > 0;) EC_FN(topk_sink)(v, p, at, k, r->largest);
    } else if (EC_FN(topk_better)(x, i, v[0], p[0], r->largest)) {
      v[0] = x;
      p[0] = i;
      EC_FN(topk_sink)(v, p, 0, k, r->largest);
    }
  }
  for (int64_t left = k; left-- > 0;) { /* the worst goes to the end each time */
    *(EC_T *)(r->values + left * r->value_step) = EC_STORE(v[0]);
    *(int64_t *)(void *)(r->indices + left * r->index_step) = p[0];
    v[0] = v[left];
    p[0] = p[left];
    EC_FN(topk_sink)(v, p, 0, left ? left : 1, r->largest);
  }
}

#undef EC_NAN
