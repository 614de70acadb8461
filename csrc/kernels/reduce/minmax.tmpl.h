/* Extremes by value and by position. EC_BEATS(x, y) is the order, EC_WORST a value that every value
 * beats or equals. A NaN beats every number, and the first NaN wins. */
#if EC_IS_FLOAT
#define EC_NAN(v) ((v) != (v))
#else
#define EC_NAN(v) false
#endif
#define EC_TAKES(v, best) (EC_BEATS(v, best) || (EC_NAN(v) && !EC_NAN(best)))
/* For loops that need only the value: any NaN will do, which saves a comparison. */
#define EC_PICK(v, best) ((EC_BEATS(v, best)) | (EC_NAN(v)) ? (v) : (best))

#if EC_IS_BOOL
/* Returns the extreme of a row of bools: whether the winning value occurs. */
EC_CLONES static EC_C EC_MFN(row)(const EC_T *x, int64_t n) {
  uint8_t found = 0;
  for (int64_t i = 0; i < n; i++) found |= (uint8_t)((x[i] != 0) != EC_WORST);
  return found ? !EC_WORST : EC_WORST;
}
#else
typedef EC_C EC_MFN(vector) __attribute__((vector_size(MINMAX_BYTES)));
typedef EC_REDUCE_MASK(EC_C) EC_MFN(mask) __attribute__((vector_size(MINMAX_BYTES)));

static inline __attribute__((always_inline)) void EC_MFN(load)(EC_MFN(vector) * v, const EC_T *x) {
  EC_C lane[MINMAX_BYTES / sizeof(EC_C)];
  for (size_t j = 0; j < MINMAX_BYTES / sizeof(EC_C); j++) lane[j] = EC_LOAD(x[j]);
  memcpy(v, lane, sizeof *v);
}

/* Tracks numbers and the presence of NaN separately, because a plain comparison is one
 * instruction. */
static inline __attribute__((always_inline)) void EC_MFN(take)(EC_MFN(vector) * most,
                                                               EC_MFN(mask) * odd, const EC_T *x) {
  EC_MFN(vector) v;
  EC_MFN(load)(&v, x);
  const EC_MFN(mask) better = (EC_MFN(mask))EC_BEATS(v, *most);
  *most = (EC_MFN(vector))(((EC_MFN(mask))v & better) | ((EC_MFN(mask))*most & ~better));
#if EC_IS_FLOAT
  *odd |= (EC_MFN(mask))(v != v);
#else
  (void)odd;
#endif
}

/* Returns the extreme of a row, in two independent vectors. If there is a NaN, it is searched. */
EC_CLONES static EC_C EC_MFN(row)(const EC_T *x, int64_t n) {
  enum { COUNT = MINMAX_BYTES / sizeof(EC_C) };
  EC_C best = EC_WORST;
  int64_t i = 0;
  if (n >= 2 * COUNT) {
    EC_MFN(vector) most, also;
    EC_MFN(mask) odd = {0};
    EC_MFN(load)(&most, x);
    also = most;
    for (; i + 2 * COUNT <= n; i += 2 * COUNT) {
      EC_MFN(take)(&most, &odd, x + i);
      EC_MFN(take)(&also, &odd, x + i + COUNT);
    }
    const EC_MFN(mask) better = (EC_MFN(mask))EC_BEATS(also, most);
    most = (EC_MFN(vector))(((EC_MFN(mask))also & better) | ((EC_MFN(mask))most & ~better));
    EC_C lane[COUNT];
    uint64_t word[MINMAX_BYTES / 8], any = 0;
    memcpy(word, &odd, sizeof odd);
    memcpy(lane, &most, sizeof most);
    for (size_t j = 0; j < MINMAX_BYTES / 8; j++) any |= word[j];
    for (int64_t width = COUNT / 2; width; width /= 2)
      for (int64_t j = 0; j < width; j++)
        lane[j] = EC_BEATS(lane[j + width], lane[j]) ? lane[j + width] : lane[j];
    best = lane[0];
    if (any) i = 0;
  }
  for (; i < n; i++) {
    const EC_C one = EC_LOAD(x[i]);
    best = EC_PICK(one, best);
  }
  return best;
}
#endif

EC_CLONES static void EC_MFN(columns)(EC_C *restrict a, const EC_T *restrict x, int64_t k) {
  int64_t i = 0;
  for (; i + MINMAX_LANES <= k; i += MINMAX_LANES)
    for (int64_t j = 0; j < MINMAX_LANES; j++) {
      EC_C v = EC_LOAD(x[i + j]);
      a[i + j] = EC_PICK(v, a[i + j]);
    }
  for (; i < k; i++) {
    EC_C v = EC_LOAD(x[i]);
    a[i] = EC_PICK(v, a[i]);
  }
}

static void EC_MFN(step)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_T *x = (const EC_T *)b->x;
  EC_C *a = acc.a;
  if (b->ns == 1 && b->n >= MINMAX_LANES && !b->plain) {
    for (int64_t i = 0; i < b->k; i++) {
      EC_C v = EC_MFN(row)(x + i * b->ks, b->n);
      a[i] = EC_PICK(v, a[i]);
    }
  } else if (b->ks == 1 && !b->plain) {
    for (int64_t r = 0; r < b->n; r++) EC_MFN(columns)(a, x + r * b->ns, b->k);
  } else {
    for (int64_t i = 0; i < b->k; i++)
      for (int64_t r = 0; r < b->n; r++) {
        EC_C v = EC_LOAD(x[i * b->ks + r * b->ns]);
        a[i] = EC_PICK(v, a[i]);
      }
  }
}

/* Returns the first position of `best` in x[0..n), where it is known to exist. */
EC_CLONES static int64_t EC_MFN(find)(const EC_T *x, int64_t n, EC_C best) {
  int64_t i = 0;
#if EC_IS_BOOL
  for (bool is_found = false; !is_found && i + MINMAX_LANES <= n; i += is_found ? 0 : MINMAX_LANES)
    for (int64_t j = 0; j < MINMAX_LANES; j++) is_found |= EC_LOAD(x[i + j]) == best;
#else
  enum { COUNT = MINMAX_BYTES / sizeof(EC_C) };
  for (; i + 2 * COUNT <= n; i += 2 * COUNT) {
    EC_MFN(vector) v, u;
    uint64_t word[MINMAX_BYTES / 8], any = 0;
    EC_MFN(load)(&v, x + i);
    EC_MFN(load)(&u, x + i + COUNT);
    EC_MFN(mask) hit = (EC_MFN(mask))(v == best) | (EC_MFN(mask))(u == best);
#if EC_IS_FLOAT
    if (EC_NAN(best)) hit = (EC_MFN(mask))(v != v) | (EC_MFN(mask))(u != u);
#endif
    memcpy(word, &hit, sizeof hit);
    for (size_t j = 0; j < MINMAX_BYTES / 8; j++) any |= word[j];
    if (any) break;
  }
#endif
  for (; i < n; i++) {
    EC_C v = EC_LOAD(x[i]);
    if (v == best || (EC_NAN(v) && EC_NAN(best))) return i;
  }
  return 0; /* reached only if another operand overlaps and changed it */
}

static void EC_MFN(arg_rows)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_T *x = (const EC_T *)b->x;
  EC_C *a = acc.a;
  int64_t *at = acc.b;
  for (int64_t i = 0; i < b->k; i++)
    for (int64_t r = 0; r < b->n; r += MINMAX_CHUNK) { /* small enough to be searched in cache */
      const EC_T *row = x + i * b->ks + r;
      int64_t n = b->n - r < MINMAX_CHUNK ? b->n - r : MINMAX_CHUNK;
      EC_C v = EC_MFN(row)(row, n);
      if (!EC_TAKES(v, a[i])) continue;
      a[i] = v;
      at[i] = b->base + r + EC_MFN(find)(row, n, v);
    }
}

static void EC_MFN(arg_step)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_T *x = (const EC_T *)b->x;
  EC_C *a = acc.a;
  int64_t *at = acc.b;
  if (b->ns == 1 && b->n >= MINMAX_LANES && !b->plain) {
    EC_MFN(arg_rows)(acc, b);
  } else if (b->ks == 1 && !b->plain) {
    for (int64_t r = 0; r < b->n; r++)
      for (int64_t i = 0; i < b->k; i++) {
        EC_C v = EC_LOAD(x[i + r * b->ns]);
        bool take = EC_TAKES(v, a[i]);
        a[i] = take ? v : a[i];
        at[i] = take ? b->base + r : at[i];
      }
  } else {
    for (int64_t i = 0; i < b->k; i++)
      for (int64_t r = 0; r < b->n; r++) {
        EC_C v = EC_LOAD(x[i * b->ks + r * b->ns]);
        bool take = EC_TAKES(v, a[i]);
        a[i] = take ? v : a[i];
        at[i] = take ? b->base + r : at[i];
      }
  }
}

static void EC_MFN(init)(ec_reduce_acc acc, int64_t k) {
  EC_C *a = acc.a;
  int64_t *at = acc.b;
  for (int64_t i = 0; i < k; i++) a[i] = EC_WORST, at[i] = 0;
}

static void EC_MFN(merge)(ec_reduce_acc acc, ec_reduce_acc later) {
  EC_C *a = acc.a;
  const EC_C v = *(const EC_C *)later.a;
  if (!EC_TAKES(v, *a)) return;
  *a = v;
  *(int64_t *)acc.b = *(const int64_t *)later.b;
}

static void EC_MFN(finish)(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *d) {
  EC_T *out = (EC_T *)d->out[0];
  int64_t *position = (int64_t *)d->out[1];
  const EC_C *a = acc.a;
  const int64_t *at = acc.b;
  for (int64_t i = 0; out && i < k; i++) out[i * d->stride[0]] = EC_STORE(a[i]);
  for (int64_t i = 0; position && i < k; i++) position[i * d->stride[1]] = at[i];
}

#undef EC_NAN
#undef EC_TAKES
#undef EC_PICK
