/* The k best elements of a row. NaN is the largest.
 *
 * Which of several equal elements are taken, and in which order, is that of eager, which selects
 * with std::partial_sort, std::nth_element and std::sort: the algorithms here move elements as
 * libstdc++'s do (heap sort, introselect, introsort), so that positions of equal elements are
 * eager's, too. */
#if EC_IS_FLOAT
#define EC_NAN(v) ((v) != (v))
#else
#define EC_NAN(v) false
#endif

typedef struct EC_FN(entry) {
  EC_C value;
  int64_t position;
} EC_FN(entry);
_Static_assert(sizeof(EC_FN(entry)) <= TOPK_ENTRY, "room for an entry");

static inline bool EC_FN(beats)(EC_C v, EC_C w, bool largest) {
  return largest ? v > w || (EC_NAN(v) && !EC_NAN(w)) : v < w || (!EC_NAN(v) && EC_NAN(w));
}

static EC_FN(entry) EC_FN(entry_at)(const topk_row *r, int64_t i) {
  return (EC_FN(entry)){EC_LOAD(*(const EC_T *)(r->x + i * r->x_step)), i};
}

static void EC_FN(swap)(EC_FN(entry) *e, int64_t i, int64_t j) {
  const EC_FN(entry) kept = e[i];
  e[i] = e[j];
  e[j] = kept;
}

/* ---- a heap with the worst entry at the root ------------------------------------------------ */

/* Writes `one` into the heap of n entries, from a hole at `at`: the hole moves to a leaf, and the
 * entry from there up. */
static void EC_FN(sink)(EC_FN(entry) *e, int64_t at, int64_t n, EC_FN(entry) one, bool largest) {
  const int64_t top = at;
  for (int64_t child = 2 * at + 2; child <= n; child = 2 * at + 2) {
    if (child == n || EC_FN(beats)(e[child].value, e[child - 1].value, largest)) child--;
    e[at] = e[child];
    at = child;
  }
  for (int64_t parent; at > top; at = parent) {
    parent = (at - 1) / 2;
    if (!EC_FN(beats)(e[parent].value, one.value, largest)) break;
    e[at] = e[parent];
  }
  e[at] = one;
}

static void EC_FN(heapify)(EC_FN(entry) *e, int64_t n, bool largest) {
  for (int64_t at = n / 2; at-- > 0;) EC_FN(sink)(e, at, n, e[at], largest);
}

/* Sorts a heap, best first. */
static void EC_FN(sort_heap)(EC_FN(entry) *e, int64_t n, bool largest) {
  while (--n > 0) {
    const EC_FN(entry) last = e[n];
    e[n] = e[0];
    EC_FN(sink)(e, 0, n, last, largest);
  }
}

/* Moves the k best of n entries, as a heap, to the front. */
static void EC_FN(select_heap)(EC_FN(entry) *e, int64_t k, int64_t n, bool largest) {
  EC_FN(heapify)(e, k, largest);
  for (int64_t i = k; i < n; i++) {
    const EC_FN(entry) one = e[i];
    if (!EC_FN(beats)(one.value, e[0].value, largest)) continue;
    e[i] = e[0];
    EC_FN(sink)(e, 0, k, one, largest);
  }
}

/* ---- few of many: a scan that keeps the best in a heap --------------------------------------- */

/* Returns the first position from `i` on with an element better than `worst`, or n. */
static inline __attribute__((always_inline)) int64_t EC_FN(next)(const topk_row *r, int64_t i,
                                                                 EC_C worst, int64_t step,
                                                                 bool largest) {
  for (const char *x = r->x + i * step; i < r->n; i++, x += step)
    if (EC_FN(beats)(EC_LOAD(*(const EC_T *)x), worst, largest)) return i;
  return i;
}

static int64_t EC_FN(seek)(const topk_row *r, int64_t i, EC_C worst) {
  const int64_t item = (int64_t)sizeof(EC_T);
  if (r->x_step != item) return EC_FN(next)(r, i, worst, r->x_step, r->largest);
  return r->largest ? EC_FN(next)(r, i, worst, item, true)
                    : EC_FN(next)(r, i, worst, item, false);
}

static void EC_FN(scan)(const topk_row *r, EC_FN(entry) *e) {
  for (int64_t i = 0; i < r->k; i++) e[i] = EC_FN(entry_at)(r, i);
  EC_FN(heapify)(e, r->k, r->largest);
  for (int64_t i = r->k; (i = EC_FN(seek)(r, i, e[0].value)) < r->n; i++)
    EC_FN(sink)(e, 0, r->k, EC_FN(entry_at)(r, i), r->largest);
  EC_FN(sort_heap)(e, r->k, r->largest);
}

/* ---- many of many: partitions ---------------------------------------------------------------- */

/* Moves the median of the second, the middle and the last entry to the front, then partitions the
 * rest by it; returns the first position of the second part. */
static int64_t EC_FN(partition)(EC_FN(entry) *e, int64_t first, int64_t end, bool largest) {
  const int64_t a = first + 1, b = first + (end - first) / 2, c = end - 1;
  const bool ab = EC_FN(beats)(e[a].value, e[b].value, largest);
  const bool ac = EC_FN(beats)(e[a].value, e[c].value, largest);
  const bool bc = EC_FN(beats)(e[b].value, e[c].value, largest);
  EC_FN(swap)(e, first, ab ? (bc ? b : ac ? c : a) : (ac ? a : bc ? c : b));
  int64_t low = first + 1, high = end;
  for (;; low++) {
    while (EC_FN(beats)(e[low].value, e[first].value, largest)) low++;
    do high--;
    while (EC_FN(beats)(e[first].value, e[high].value, largest));
    if (low >= high) return low;
    EC_FN(swap)(e, low, high);
  }
}

/* Moves an entry up to its place among sorted ones, of which `first` is the first. */
static void EC_FN(insert)(EC_FN(entry) *e, int64_t first, int64_t at, bool largest) {
  const EC_FN(entry) one = e[at];
  for (; at > first && EC_FN(beats)(one.value, e[at - 1].value, largest); at--) e[at] = e[at - 1];
  e[at] = one;
}

static void EC_FN(insertion_sort)(EC_FN(entry) *e, int64_t first, int64_t end, bool largest) {
  for (int64_t i = first + 1; i < end; i++) EC_FN(insert)(e, first, i, largest);
}

/* Moves the k best of n entries to the front, in no order. */
static void EC_FN(select)(EC_FN(entry) *e, int64_t k, int64_t n, bool largest) {
  int64_t first = 0, end = n, depth = topk_depth(n);
  while (end - first > 3) {
    if (depth-- == 0) {
      EC_FN(select_heap)(e + first, k - first, end - first, largest);
      EC_FN(swap)(e, first, k - 1);
      return;
    }
    const int64_t cut = EC_FN(partition)(e, first, end, largest);
    if (cut < k) first = cut;
    else end = cut;
  }
  EC_FN(insertion_sort)(e, first, end, largest);
}

/* Sorts n entries, best first: parts of up to TOPK_PART entries by insertion in the end. */
static void EC_FN(sort)(EC_FN(entry) *e, int64_t n, bool largest) {
  topk_part stack[TOPK_STACK], part = {0, n, topk_depth(n)};
  for (size_t waiting = 0;; part = stack[--waiting]) {
    while (part.end - part.first > TOPK_PART && part.depth > 0) {
      part.depth--;
      const int64_t cut = EC_FN(partition)(e, part.first, part.end, largest);
      stack[waiting++] = (topk_part){part.first, cut, part.depth};
      part.first = cut;
    }
    if (part.end - part.first > TOPK_PART) {
      EC_FN(heapify)(e + part.first, part.end - part.first, largest);
      EC_FN(sort_heap)(e + part.first, part.end - part.first, largest);
    }
    if (!waiting) break;
  }
  EC_FN(insertion_sort)(e, 0, n, largest);
}

static void EC_FN(topk_row)(const topk_row *r) {
  EC_FN(entry) *e = r->entries;
  if (topk_is_scan(r->k, r->n)) {
    EC_FN(scan)(r, e);
  } else {
    for (int64_t i = 0; i < r->n; i++) e[i] = EC_FN(entry_at)(r, i);
    EC_FN(select)(e, r->k, r->n, r->largest);
    if (r->sorted) EC_FN(sort)(e, r->k - 1, r->largest);
  }
  for (int64_t i = 0; i < r->k; i++) {
    *(EC_T *)(r->values + i * r->value_step) = EC_STORE(e[i].value);
    *(int64_t *)(void *)(r->indices + i * r->index_step) = e[i].position;
  }
}

#undef EC_NAN
