/* Transforms of blocks of lines. Stockham's self-sorting form of the mixed-radix algorithm of
 * Cooley and Tukey (C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992,
 * 1.7 and 2.2), lengths with large primes as convolutions (L. Bluestein, 1970), even real lines as
 * complex ones of half the length (J. Cooley, P. Lewis, P. Welch, 1970). */
#define CX EC_FN(cx)
typedef struct CX {
  EC_T re, im;
} CX;

static inline CX EC_FN(times)(CX a, CX b) {
  return (CX){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* exp(-2 pi i j / n) for j < n: the product of a coarse and a fine root, in double. */
static ec_status EC_FN(make_roots)(ec_call *c, size_t n, const void **out) {
  size_t fine = 1;
  while (fine * fine < n) fine *= 2;
  double(*table)[2];
  CX *roots;
  const size_t coarse = n / fine + 1;
  EC_TRY(ec_call_scratch(c, fine + coarse, sizeof *table, &table));
  EC_TRY(ec_call_scratch(c, n, sizeof *roots, &roots));
  for (size_t j = 0; j < fine; j++) root_of(j, n, table[j]);
  for (size_t j = 0; j < coarse; j++) root_of(j * fine % n, n, table[fine + j]);
  for (size_t j = 0; j < n; j++) {
    const double *a = table[j & (fine - 1)], *b = table[fine + j / fine];
    roots[j] = (CX){(EC_T)(a[0] * b[0] - a[1] * b[1]), (EC_T)(a[0] * b[1] + a[1] * b[0])};
  }
  *out = roots;
  return EC_OK;
}

/* One radix-r butterfly in place. */
static inline __attribute__((always_inline)) void EC_FN(butterfly)(const size_t r, CX *x) {
#define ADD(a, b) ((CX){(a).re + (b).re, (a).im + (b).im})
#define SUB(a, b) ((CX){(a).re - (b).re, (a).im - (b).im})
#define MINUS_I(a) ((CX){(a).im, -(a).re})
#define SCALED(a, k) ((CX){(a).re * (k), (a).im * (k)})
  if (r == 2) {
    const CX a = x[0], b = x[1];
    x[0] = ADD(a, b), x[1] = SUB(a, b);
  } else if (r == 3) {
    const CX s = ADD(x[1], x[2]), d = SUB(x[1], x[2]);
    const CX even = SUB(x[0], SCALED(s, (EC_T)0.5));
    const CX odd = SCALED(MINUS_I(d), (EC_T)0x1.bb67ae8584caap-1); /* sin(2 pi / 3) */
    x[0] = ADD(x[0], s), x[1] = ADD(even, odd), x[2] = SUB(even, odd);
  } else if (r == 4) {
    const CX a = ADD(x[0], x[2]), b = SUB(x[0], x[2]), e = ADD(x[1], x[3]), d = SUB(x[1], x[3]);
    x[0] = ADD(a, e), x[1] = ADD(b, MINUS_I(d)), x[2] = SUB(a, e), x[3] = SUB(b, MINUS_I(d));
  } else { /* 5 */
    const EC_T c1 = (EC_T)0x1.3c6ef372fe95p-2, c2 = (EC_T)-0x1.9e3779b97f4a8p-1; /* cos(2 pi k/5) */
    const EC_T s1 = (EC_T)0x1.e6f0e134454ffp-1, s2 = (EC_T)0x1.2cf2304755a5ep-1; /* sin(2 pi k/5) */
    const CX a = ADD(x[1], x[4]), b = ADD(x[2], x[3]), e = SUB(x[1], x[4]), d = SUB(x[2], x[3]);
    const CX p = ADD(x[0], ADD(SCALED(a, c1), SCALED(b, c2)));
    const CX q = ADD(x[0], ADD(SCALED(a, c2), SCALED(b, c1)));
    const CX u = MINUS_I(ADD(SCALED(e, s1), SCALED(d, s2)));
    const CX v = MINUS_I(SUB(SCALED(e, s2), SCALED(d, s1)));
    x[0] = ADD(x[0], ADD(a, b));
    x[1] = ADD(p, u), x[2] = ADD(q, v), x[3] = SUB(q, v), x[4] = SUB(p, u);
  }
#undef ADD
#undef SUB
#undef MINUS_I
#undef SCALED
}

typedef struct EC_FN(stage) {
  size_t m, s, width; /* butterflies, transforms inside, s * lanes */
  const CX *roots;
  size_t root_step;
  const EC_T *xr, *xi;
  EC_T *yr, *yi;
} EC_FN(stage);

/* One stage; `r` is a constant where this is inlined, so that the small loops unroll. */
static inline __attribute__((always_inline)) void EC_FN(pass)(const size_t r,
                                                              const EC_FN(stage) * g) {
  const size_t width = g->width;
  for (size_t p = 0; p < g->m; p++) {
    CX w[5];
    for (size_t k = 1; k < r; k++) w[k] = g->roots[p * k * g->s * g->root_step];
    const EC_T *xr = g->xr + p * width, *xi = g->xi + p * width;
    EC_T *yr = g->yr + p * r * width, *yi = g->yi + p * r * width;
    const size_t far = g->m * width;
#pragma GCC ivdep /* x and y are different work arrays */
    for (size_t q = 0; q < width; q++) {
      CX x[5];
#pragma GCC unroll 5
      for (size_t k = 0; k < r; k++) x[k] = (CX){xr[q + k * far], xi[q + k * far]};
      EC_FN(butterfly)(r, x);
      yr[q] = x[0].re, yi[q] = x[0].im;
#pragma GCC unroll 5
      for (size_t k = 1; k < r; k++) {
        const CX y = EC_FN(times)(x[k], w[k]);
        yr[q + k * width] = y.re, yi[q + k * width] = y.im;
      }
    }
  }
}

/* Any radix: sums of products with the roots. */
EC_CLONES static void EC_FN(pass_any)(size_t r, const EC_FN(stage) * g) {
  const size_t width = g->width, far = g->m * width, n = g->m * g->s * r;
  for (size_t p = 0; p < g->m; p++)
    for (size_t k = 0; k < r; k++) {
      EC_T *restrict yr = g->yr + (p * r + k) * width, *restrict yi = g->yi + (p * r + k) * width;
      for (size_t j = 0; j < r; j++) { /* w(r)^(jk) * w(mr)^(pk) */
        const size_t turn = (j * k % r * (n / r) + p * k * g->s) % n;
        const CX w = g->roots[turn * g->root_step];
        const EC_T *restrict xr = g->xr + p * width + j * far;
        const EC_T *restrict xi = g->xi + p * width + j * far;
        for (size_t q = 0; q < width; q++) {
          const CX y = EC_FN(times)((CX){xr[q], xi[q]}, w);
          yr[q] = j ? yr[q] + y.re : y.re;
          yi[q] = j ? yi[q] + y.im : y.im;
        }
      }
    }
}

static void EC_FN(transform)(const ec_fft *plan, size_t lanes, EC_T *at[4]);

/* work[0], work[1] to themselves by way of the others (pointers are exchanged). */
EC_CLONES static void EC_FN(stages)(const ec_fft *plan, size_t lanes, EC_T *at[4]) {
  EC_FN(stage) g = {.m = plan->n, .s = 1, .roots = plan->roots, .root_step = plan->root_step};
  for (size_t i = 0; i < plan->count; i++) {
    const size_t r = plan->factors[i];
    g.m /= r, g.width = g.s * lanes;
    g.xr = at[0], g.xi = at[1], g.yr = at[2], g.yi = at[3];
    if (r == 4) EC_FN(pass)(4, &g);
    else if (r == 2) EC_FN(pass)(2, &g);
    else if (r == 3) EC_FN(pass)(3, &g);
    else if (r == 5) EC_FN(pass)(5, &g);
    else EC_FN(pass_any)(r, &g);
    g.s *= r;
    EC_T *re = at[0], *im = at[1];
    at[0] = at[2], at[1] = at[3], at[2] = re, at[3] = im;
  }
}

/* Multiplies n rows of lanes by w (its conjugate), and by `scale`. */
static void EC_FN(modulate)(size_t n, size_t lanes, const CX *w, EC_T scale, EC_T *const at[2]) {
  for (size_t j = 0; j < n; j++) {
    EC_T *re = at[0] + j * lanes, *im = at[1] + j * lanes;
    const CX by = {w[j].re * scale, w[j].im * scale};
    for (size_t b = 0; b < lanes; b++) {
      const CX y = EC_FN(times)((CX){re[b], im[b]}, by);
      re[b] = y.re, im[b] = y.im;
    }
  }
}

/* X_k = chirp_k * sum of (x_j * chirp_j) * conj(chirp_(k - j)): a cyclic convolution. */
static void EC_FN(bluestein)(const ec_fft *plan, size_t lanes, EC_T *at[4]) {
  const size_t n = plan->n, m = plan->inner->n;
  EC_FN(modulate)(n, lanes, plan->chirp, 1, at);
  memset(at[0] + n * lanes, 0, (m - n) * lanes * sizeof(EC_T));
  memset(at[1] + n * lanes, 0, (m - n) * lanes * sizeof(EC_T));
  EC_FN(transform)(plan->inner, lanes, at);
  EC_FN(modulate)(m, lanes, plan->kernel, 1, at);
  EC_T *back[4] = {at[1], at[0], at[3], at[2]}; /* parts exchanged: the other direction */
  EC_FN(transform)(plan->inner, lanes, back);
  at[0] = back[1], at[1] = back[0], at[2] = back[3], at[3] = back[2];
  EC_FN(modulate)(n, lanes, plan->chirp, 1 / (EC_T)m, at);
}

static void EC_FN(transform)(const ec_fft *plan, size_t lanes, EC_T *at[4]) {
  if (plan->inner) EC_FN(bluestein)(plan, lanes, at);
  else EC_FN(stages)(plan, lanes, at);
}

static ec_status EC_FN(make_bluestein)(ec_call *c, ec_fft *plan) {
  const size_t n = plan->n;
  const void *roots;
  CX *chirp, *kernel;
  EC_T *at[4];
  size_t m = 1, turn = 0;
  while (m < 2 * n - 1) m *= 2;
  plan->room = m;
  EC_TRY(ec_call_scratch(c, 1, sizeof *plan->inner, &plan->inner));
  EC_TRY(EC_FN(make_roots)(c, m, &roots));
  EC_TRY(ec_fft_plan(c, m, roots, 1, plan->inner));
  EC_TRY(EC_FN(make_roots)(c, 2 * n, &roots));
  EC_TRY(ec_call_scratch(c, n, sizeof *chirp, &chirp));
  EC_TRY(ec_call_scratch(c, m, sizeof *kernel, &kernel));
  for (size_t i = 0; i < 4; i++) EC_TRY(ec_call_scratch(c, m, sizeof(EC_T), &at[i]));
  for (size_t j = 0; j < n; j++) {
    chirp[j] = ((const CX *)roots)[turn];
    at[0][j] = at[0][j ? m - j : 0] = chirp[j].re;
    at[1][j] = at[1][j ? m - j : 0] = -chirp[j].im;
    turn = (turn + 2 * j + 1) % (2 * n); /* (j + 1)^2 */
  }
  EC_FN(transform)(plan->inner, 1, at);
  for (size_t j = 0; j < m; j++) kernel[j] = (CX){at[0][j], at[1][j]};
  plan->chirp = chirp, plan->kernel = kernel;
  return EC_OK;
}

/* The plans and the memory of an axis whose lengths and kind are set. */
static ec_status EC_FN(prepare)(ec_call *c, ec_fft_axis *axis) {
  size_t count, step = axis->half ? 2 : 1;
  EC_TRY(EC_FN(make_roots)(c, axis->n, &axis->roots));
  EC_TRY(ec_fft_plan(c, axis->n / step, axis->roots, step, &axis->plan));
  if (!axis->plan.count && axis->plan.n > 1) EC_TRY(EC_FN(make_bluestein)(c, &axis->plan));
  if (!ec_mul_size(axis->plan.room, axis->lanes * 4, &count))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "lines of %zu elements are too long", axis->n);
  return ec_call_scratch(c, count, sizeof(EC_T), &axis->work);
}

/* Even real lines: between the spectrum X of n and that of the pairs, Z of m = n / 2.
 * With E and O the spectra of even and odd elements, Z = E + iO and X_k = E_k + w^k O_k.
 * X_k of all lanes; Z has the period m, and 0 <= k <= m. */
EC_CLONES static void EC_FN(unpack)(const ec_fft_axis *axis, EC_T *const from[2], size_t k,
                                    EC_T *restrict re, EC_T *restrict im) {
  const size_t m = axis->n / 2, l = axis->lanes, i = k == m ? 0 : k, j = k == 0 ? 0 : m - k;
  const EC_T *ar = from[0] + i * l, *ai = from[1] + i * l;
  const EC_T *br = from[0] + j * l, *bi = from[1] + j * l;
  const CX w = ((const CX *)axis->roots)[k];
  for (size_t b = 0; b < l; b++) {
    const CX even = {(ar[b] + br[b]) / 2, (ai[b] - bi[b]) / 2};
    const CX odd = {(ai[b] + bi[b]) / 2, (br[b] - ar[b]) / 2};
    const CX turned = EC_FN(times)(odd, w);
    re[b] = even.re + turned.re, im[b] = even.im + turned.im;
  }
}

static CX EC_FN(pack)(const ec_fft_axis *axis, const CX *x, size_t k) {
  const size_t m = axis->n / 2;
  CX a = x[(int64_t)k * axis->in_stride], b = x[(int64_t)(m - k) * axis->in_stride];
  if (k == 0) a.im = b.im = 0; /* first and middle are real */
  const CX w = ((const CX *)axis->roots)[k];
  const CX odd = EC_FN(times)((CX){a.re - b.re, a.im + b.im}, (CX){w.re, -w.im});
  return (CX){a.re + b.re - odd.im, a.im - b.im + odd.re};
}

/* Lines of complex numbers, or Hermitian halves of odd length completed. */
static void EC_FN(load_complex)(const ec_fft_axis *axis, const char *at, int64_t step, size_t count,
                                EC_T *const to[2]) {
  const size_t n = axis->n, l = axis->lanes;
  const bool hermitian = axis->kind == EC_FFT_C2R;
  for (size_t from = 0; from < axis->in_n; from += TILE)
    for (size_t b = 0; b < count; b++) {
      const CX *x = (const CX *)(const void *)(at + (int64_t)b * step);
      for (size_t j = from; j < axis->in_n && j < from + TILE; j++) {
        CX v = x[(int64_t)j * axis->in_stride];
        if (hermitian && j == 0) v.im = 0;
        to[0][j * l + b] = v.re, to[1][j * l + b] = v.im;
        if (hermitian && j) to[0][(n - j) * l + b] = v.re, to[1][(n - j) * l + b] = -v.im;
      }
    }
}

static void EC_FN(load)(const ec_fft_axis *axis, const char *at, int64_t step, size_t count,
                        EC_T *const to[2]) {
  const size_t n = axis->plan.n, l = axis->lanes;
  if (axis->kind != EC_FFT_R2C && !axis->half) {
    EC_FN(load_complex)(axis, at, step, count, to);
    return;
  }
  for (size_t from = 0; from < n; from += TILE)
    for (size_t b = 0; b < count; b++) {
      const void *line = at + (int64_t)b * step;
      const EC_T *real = line;
      for (size_t j = from; j < n && j < from + TILE; j++) {
        CX v;
        if (axis->kind == EC_FFT_C2R) v = EC_FN(pack)(axis, line, j);
        else if (!axis->half) v = (CX){real[(int64_t)j * axis->in_stride], 0};
        else
          v = (CX){real[(int64_t)(2 * j) * axis->in_stride],
                   real[(int64_t)(2 * j + 1) * axis->in_stride]};
        to[0][j * l + b] = v.re, to[1][j * l + b] = v.im;
      }
    }
}

static void EC_FN(store_real)(const ec_fft_axis *axis, char *at, int64_t step, size_t count,
                              EC_T *const from[2]) {
  const size_t l = axis->lanes;
  const EC_T scale = (EC_T)axis->scale;
  for (size_t begin = 0; begin < axis->n; begin += TILE)
    for (size_t b = 0; b < count; b++) {
      EC_T *line = (EC_T *)(void *)(at + (int64_t)b * step);
      for (size_t j = begin; j < axis->n && j < begin + TILE; j++) {
        const EC_T v = axis->half ? from[j & 1][j / 2 * l + b] : from[0][j * l + b];
        line[(int64_t)j * axis->out_stride] = v * scale;
      }
    }
}

static void EC_FN(store_complex)(const ec_fft_axis *axis, char *at, int64_t step, size_t count,
                                 EC_T *const from[2]) {
  const size_t n = axis->n, l = axis->lanes;
  const size_t own = axis->kind == EC_FFT_R2C ? n / 2 + 1 : n; /* the rest are conjugates */
  const EC_T scale = (EC_T)axis->scale;
  for (size_t begin = 0; begin < own; begin += TILE) {
    const size_t end = begin + TILE < own ? begin + TILE : own;
    EC_T re[TILE][LANES], im[TILE][LANES];
    for (size_t j = begin; axis->half && j < end; j++)
      EC_FN(unpack)(axis, from, j, re[j - begin], im[j - begin]);
    for (size_t b = 0; b < count; b++) {
      CX *line = (CX *)(void *)(at + (int64_t)b * step);
      for (size_t j = begin; j < end; j++) {
        const CX v = axis->half ? (CX){re[j - begin][b], im[j - begin][b]}
                                : (CX){from[0][j * l + b], from[1][j * l + b]};
        const CX x = {v.re * scale, v.im * scale};
        line[(int64_t)j * axis->out_stride] = x;
        if (j && n - j >= own && axis->out_n == n)
          line[(int64_t)(n - j) * axis->out_stride] = (CX){x.re, -x.im};
      }
    }
  }
}

static void EC_FN(lines)(const ec_fft_axis *axis, size_t count, char *const at[2],
                         const int64_t step[2]) {
  EC_T *work[4];
  for (size_t i = 0; i < 4; i++) work[i] = (EC_T *)axis->work + i * axis->plan.room * axis->lanes;
  const bool swap = !axis->forward; /* parts exchanged: the other direction */
  EC_T *in[2] = {work[swap], work[!swap]};
  EC_FN(load)(axis, at[1], step[1], count, in);
  EC_FN(transform)(&axis->plan, axis->lanes, work);
  EC_T *out[2] = {work[swap], work[!swap]};
  if (axis->kind == EC_FFT_C2R) EC_FN(store_real)(axis, at[0], step[0], count, out);
  else EC_FN(store_complex)(axis, at[0], step[0], count, out);
}
#undef CX
