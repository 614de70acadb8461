/* Copies between lines in memory and the lanes of work arrays. */
#define QUAD EC_FN(quad)
#define PAIRS EC_FN(pairs)

typedef EC_T QUAD __attribute__((vector_size(4 * sizeof(EC_T))));

/* Lines of pairs of numbers: complex ones, or neighbours of a real line. For a line of single
 * numbers `im` is 0: both rows load the same number and store to it, the real one last. */
typedef struct PAIRS {
  EC_T *at;               /* the first line */
  int64_t line, pair, im; /* from a line to the next, a pair to the next, a number to the second */
  EC_T *rows[2];
  size_t lanes;
  EC_T scale; /* of stored numbers */
} PAIRS;

/* Transposes four rows of four. */
static inline __attribute__((always_inline)) void EC_FN(turn)(QUAD x[4]) {
#define LOW(a, b) EC_SHUFFLE(a, b, 0, 4, 1, 5)
#define HIGH(a, b) EC_SHUFFLE(a, b, 2, 6, 3, 7)
  const QUAD a = LOW(x[0], x[2]), b = HIGH(x[0], x[2]);
  const QUAD c = LOW(x[1], x[3]), d = HIGH(x[1], x[3]);
  x[0] = LOW(a, c), x[1] = HIGH(a, c), x[2] = LOW(b, d), x[3] = HIGH(b, d);
#undef LOW
#undef HIGH
}

/* Moves two contiguous pairs of four lines, or four single numbers. */
static inline __attribute__((always_inline)) void EC_FN(move_quad)(const bool store, const PAIRS *g,
                                                                   size_t j, size_t b) {
  QUAD x[4];
  const size_t l = g->lanes;
  EC_T *line = g->at + (int64_t)b * g->line + (int64_t)j * g->pair;
  EC_T *re = g->rows[0] + j * l + b, *im = g->im ? g->rows[1] + j * l + b : re + l;
  const size_t next = g->im ? l : 2 * l;
  EC_T *const row[4] = {re, im, re + next, im + next};
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; i++) memcpy(&x[i], store ? row[i] : line + i * g->line, sizeof *x);
  EC_FN(turn)(x);
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; i++) {
    if (store) x[i] *= g->scale;
    memcpy(store ? line + i * g->line : row[i], &x[i], sizeof *x);
  }
}

/* Moves pairs [begin, end) of the lines [first, last), one number at a time. */
static inline void EC_FN(move_some)(const bool store, const PAIRS *g, size_t begin, size_t end,
                                    size_t first, size_t last) {
  for (size_t b = first; b < last; b++)
    for (size_t j = begin; j < end; j++) {
      EC_T *x = g->at + (int64_t)b * g->line + (int64_t)j * g->pair;
      EC_T *re = g->rows[0] + j * g->lanes + b, *im = g->rows[1] + j * g->lanes + b;
      if (store) x[g->im] = *im * g->scale, x[0] = *re * g->scale;
      else *re = x[0], *im = x[g->im];
    }
}

/* Moves one pair of adjacent lines. */
static inline __attribute__((always_inline)) void EC_FN(move_row)(const bool store, const PAIRS *g,
                                                                  size_t j, size_t count) {
  EC_T *restrict x = g->at + (int64_t)j * g->pair;
  EC_T *restrict re = g->rows[0] + j * g->lanes, *restrict im = g->rows[1] + j * g->lanes;
  for (size_t b = 0; b < count; b++)
    if (store) x[2 * b] = re[b] * g->scale, x[2 * b + 1] = im[b] * g->scale;
    else re[b] = x[2 * b], im[b] = x[2 * b + 1];
}

/* Moves n pairs of `count` lines. */
static inline __attribute__((always_inline)) void EC_FN(move)(const bool store, const PAIRS *g,
                                                              size_t n, size_t count) {
  const bool pairs = g->pair == 2 && g->im == 1, alone = g->pair == 1 && g->im == 0;
  const bool aside = g->line == 2 && g->im == 1;
  const size_t quads = pairs || alone ? count / 4 * 4 : 0, by = pairs ? 2 : 4;
  if (pairs && g->lanes == 1) { /* its pairs are laid out like many lines */
    EC_FN(move_row)(store, g, 0, n);
    return;
  }
  for (size_t j = 0; aside && j < n; j++) EC_FN(move_row)(store, g, j, count);
  for (size_t begin = 0; !aside && begin < n; begin += TILE) {
    const size_t end = begin + TILE < n ? begin + TILE : n, even = end - (end - begin) % by;
    for (size_t b = 0; b < quads; b += 4)
      for (size_t j = begin; j < even; j += by) EC_FN(move_quad)(store, g, j, b);
    EC_FN(move_some)(store, g, even, end, 0, quads);
    EC_FN(move_some)(store, g, begin, end, quads, count);
  }
}

EC_CLONES static void EC_FN(load_pairs)(const PAIRS *g, size_t n, size_t count) {
  EC_FN(move)(false, g, n, count);
}

EC_CLONES static void EC_FN(store_pairs)(const PAIRS *g, size_t n, size_t count) {
  EC_FN(move)(true, g, n, count);
}

/* Even real lines: converts between the spectrum X of n and that of the pairs, Z of m = n / 2.
 * With E and O the spectra of even and odd elements, Z = E + iO and X_k = E_k + w^k O_k. Both
 * indices X_k and X_(m - k), Z_k and Z_(m - k) are computed at once: E and O are spectra of real
 * lines. */
static inline __attribute__((always_inline)) void EC_FN(unpack)(
    const ec_fft_axis *axis, const size_t l, EC_T *const z[2]) {
  const size_t m = axis->n / 2;
  for (size_t b = 0; b < l; b++) {
    const CX first = {z[0][b], z[1][b]};
    z[0][b] = first.re + first.im, z[0][m * l + b] = first.re - first.im;
    z[1][b] = z[1][m * l + b] = 0;
  }
  for (size_t k = 1; 2 * k <= m; k++) {
    EC_T *ar = z[0] + k * l, *ai = z[1] + k * l;
    EC_T *br = z[0] + (m - k) * l, *bi = z[1] + (m - k) * l;
    const CX w = ((const CX *)axis->roots)[k];
#pragma GCC ivdep /* in the middle a is b, and is written twice with the same value */
    for (size_t b = 0; b < l; b++) {
      const CX even = {(ar[b] + br[b]) / 2, (ai[b] - bi[b]) / 2};
      const CX odd = EC_FN(times)((CX){(ai[b] + bi[b]) / 2, (br[b] - ar[b]) / 2}, w);
      ar[b] = even.re + odd.re, ai[b] = even.im + odd.im;
      br[b] = even.re - odd.re, bi[b] = odd.im - even.im;
    }
  }
}

/* The inverse, scaled by 2. Imaginary parts of real values are ignored. */
static inline __attribute__((always_inline)) void EC_FN(pack)(
    const ec_fft_axis *axis, const size_t l, EC_T *const x[2]) {
  const size_t m = axis->n / 2;
  for (size_t b = 0; b < l; b++) {
    const EC_T first = x[0][b], last = x[0][m * l + b];
    x[0][b] = first + last, x[1][b] = first - last;
  }
  for (size_t k = 1; 2 * k <= m; k++) {
    EC_T *ar = x[0] + k * l, *ai = x[1] + k * l;
    EC_T *br = x[0] + (m - k) * l, *bi = x[1] + (m - k) * l;
    const CX w = {((const CX *)axis->roots)[k].re, -((const CX *)axis->roots)[k].im};
#pragma GCC ivdep /* as above */
    for (size_t b = 0; b < l; b++) {
      const CX even = {ar[b] + br[b], ai[b] - bi[b]};
      const CX odd = EC_FN(times)((CX){ar[b] - br[b], ai[b] + bi[b]}, w);
      ar[b] = even.re - odd.im, ai[b] = even.im + odd.re;
      br[b] = even.re + odd.im, bi[b] = odd.re - even.im;
    }
  }
}

/* A variant for single lines, without the inner loop. */
EC_CLONES static void EC_FN(real_spectrum)(const ec_fft_axis *axis, bool make, EC_T *const x[2]) {
  const size_t l = axis->lanes;
  if (make && l == 1) EC_FN(unpack)(axis, 1, x);
  else if (make) EC_FN(unpack)(axis, l, x);
  else if (l == 1) EC_FN(pack)(axis, 1, x);
  else EC_FN(pack)(axis, l, x);
}

/* Fills in the other half of the spectrum of odd real lines. */
static void EC_FN(complete)(const ec_fft_axis *axis, EC_T *const x[2]) {
  const size_t n = axis->n, l = axis->lanes;
  memset(x[1], 0, l * sizeof(EC_T));
  for (size_t j = 1; j <= n / 2; j++) {
    memcpy(x[0] + (n - j) * l, x[0] + j * l, l * sizeof(EC_T));
    for (size_t b = 0; b < l; b++) x[1][(n - j) * l + b] = -x[1][j * l + b];
  }
}

static void EC_FN(load)(const ec_fft_axis *axis, PAIRS *g, size_t count) {
  if (axis->kind == EC_FFT_R2C) {
    g->pair = axis->half ? 2 * axis->in_stride : axis->in_stride;
    g->im = axis->half ? axis->in_stride : 0;
    EC_FN(load_pairs)(g, axis->plan.n, count);
    if (!axis->half) memset(g->rows[1], 0, axis->n * axis->lanes * sizeof(EC_T));
    return;
  }
  g->pair = 2 * axis->in_stride, g->im = 1;
  EC_FN(load_pairs)(g, axis->in_n, count);
  if (axis->half) EC_FN(real_spectrum)(axis, false, g->rows);
  else if (axis->kind == EC_FFT_C2R) EC_FN(complete)(axis, g->rows);
}

static void EC_FN(store)(const ec_fft_axis *axis, PAIRS *g, size_t count) {
  const size_t n = axis->n, own = n / 2 + 1; /* of a real line's spectrum; the rest: conjugates */
  if (axis->kind == EC_FFT_C2R) {
    g->pair = axis->half ? 2 * axis->out_stride : axis->out_stride;
    g->im = axis->half ? axis->out_stride : 0;
    EC_FN(store_pairs)(g, axis->plan.n, count);
    return;
  }
  if (axis->half) EC_FN(real_spectrum)(axis, true, g->rows);
  g->pair = 2 * axis->out_stride, g->im = 1;
  EC_FN(store_pairs)(g, axis->kind == EC_FFT_R2C ? own : n, count);
  for (size_t b = 0; axis->kind == EC_FFT_R2C && axis->out_n == n && b < count; b++)
    for (size_t j = own; j < n; j++) {
      EC_T *x = g->at + (int64_t)b * g->line;
      const EC_T *from = x + (int64_t)(n - j) * g->pair;
      x[(int64_t)j * g->pair] = from[0], x[(int64_t)j * g->pair + 1] = -from[1];
    }
}

static void EC_FN(lines)(const ec_fft_axis *axis, size_t count, char *const at[2],
                         const int64_t step[2]) {
  EC_T *work[4];
  PAIRS g = {.lanes = axis->lanes, .scale = (EC_T)axis->scale};
  const bool swap = !axis->forward; /* swapped parts: the inverse direction */
  for (size_t i = 0; i < 4; i++) work[i] = (EC_T *)axis->work + i * axis->room;
  g.rows[0] = work[swap], g.rows[1] = work[!swap];
  g.at = (EC_T *)(void *)at[1], g.line = step[1] / (int64_t)sizeof(EC_T);
  EC_FN(load)(axis, &g, count);
  EC_FN(transform)(&axis->plan, axis->lanes, work);
  g.rows[0] = work[swap], g.rows[1] = work[!swap];
  g.at = (EC_T *)(void *)at[0], g.line = step[0] / (int64_t)sizeof(EC_T);
  EC_FN(store)(axis, &g, count);
}
#undef QUAD
#undef PAIRS
