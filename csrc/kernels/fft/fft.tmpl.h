/* Transforms of blocks of lines. Stockham's self-sorting form of the mixed-radix algorithm of
 * Cooley and Tukey (C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7
 * and 2.2), lengths with large primes as convolutions (L. Bluestein, 1970), even real lines as
 * complex ones of half the length (J. Cooley, P. Lewis, P. Welch, 1970). */
#define CX EC_FN(cx)
typedef struct CX {
  EC_T re, im;
} CX;

static inline CX EC_FN(times)(CX a, CX b) {
  return (CX){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Multiplies n roots by another one. */
EC_CLONES static void EC_FN(product_roots)(size_t n, const double a[][2], const double b[2],
                                           CX *restrict roots) {
  for (size_t j = 0; j < n; j++) {
    roots[j].re = (EC_T)(a[j][0] * b[0] - a[j][1] * b[1]);
    roots[j].im = (EC_T)(a[j][0] * b[1] + a[j][1] * b[0]);
  }
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
  for (size_t j = 0; j < n; j += fine)
    EC_FN(product_roots)(n - j < fine ? n - j : fine, table, table[fine + j / fine], roots + j);
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

#define VECTOR EC_FN(vector)
typedef EC_T VECTOR __attribute__((vector_size(VECTOR_SIZE * sizeof(EC_T))));

static inline void EC_FN(put)(EC_T *to, const VECTOR *v, size_t count) {
  if (count == VECTOR_SIZE) memcpy(to, v, sizeof *v);
  else memcpy(to, v, count * sizeof(EC_T));
}

typedef struct EC_FN(stage) {
  size_t m, s, width; /* butterflies, inner transforms, s * lanes */
  const CX *roots;
  size_t root_step;
  const EC_T *xr, *xi;
  EC_T *yr, *yi;
} EC_FN(stage);

/* Runs one stage. `r` is constant after inlining, so that the small loops unroll; so is `width` if
 * it is too small for the compiler's usual vectors. */
static inline __attribute__((always_inline)) void EC_FN(pass_of)(const size_t r, const size_t width,
                                                                 const EC_FN(stage) * g) {
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

static inline __attribute__((always_inline)) void EC_FN(pass)(const size_t r,
                                                              const EC_FN(stage) * g) {
  if (g->width == 4) EC_FN(pass_of)(r, 4, g);
  else if (g->width == 8) EC_FN(pass_of)(r, 8, g);
  else EC_FN(pass_of)(r, g->width, g);
}

/* Computes one vector of a butterfly of the odd radix r = 2h + 1. `count` elements are stored;
 * reads beyond them are in bounds. With the sums and differences of x_j and x_(r - j), y_k is C -
 * iS and y_(r - k) is C + iS, where C sums cosines and S sines. */
static inline __attribute__((always_inline)) void EC_FN(odd_vector)(
    const size_t r, const CX *turn, const EC_FN(stage) * g, size_t p, size_t q, size_t count) {
  const size_t half = r / 2, far = g->m * g->width;
  const EC_T *const x[2] = {g->xr + p * g->width + q, g->xi + p * g->width + q};
  EC_T *const y[2] = {g->yr + p * r * g->width + q, g->yi + p * r * g->width + q};
  VECTOR sum[EC_FFT_RADIX / 2][2], less[EC_FFT_RADIX / 2][2], first[2];
  for (size_t i = 0; i < 2; i++) {
    memcpy(&first[i], x[i], sizeof *first);
    VECTOR a, b, total = first[i];
    for (size_t j = 1; j <= half; j++) {
      memcpy(&a, x[i] + j * far, sizeof a);
      memcpy(&b, x[i] + (r - j) * far, sizeof b);
      sum[j - 1][i] = a + b, less[j - 1][i] = a - b, total += a + b;
    }
    EC_FN(put)(y[i], &total, count);
  }
  for (size_t k = 1; k <= half; k++) {
    VECTOR cr = first[0], ci = first[1], sr = {0}, si = {0};
    for (size_t j = 0, t = k; j < half; j++) {
      cr += sum[j][0] * turn[t].re, ci += sum[j][1] * turn[t].re;
      sr -= less[j][0] * turn[t].im, si -= less[j][1] * turn[t].im;
      t = t + k < r ? t + k : t + k - r;
    }
    for (size_t end = 0; end < 2; end++) { /* k, then r - k */
      const size_t at = end ? r - k : k;
      const CX w = g->roots[p * at * g->s * g->root_step];
      const VECTOR re = end ? cr - si : cr + si, im = end ? ci + sr : ci - sr;
      const VECTOR yr = re * w.re - im * w.im, yi = re * w.im + im * w.re;
      EC_FN(put)(y[0] + at * g->width, &yr, count);
      EC_FN(put)(y[1] + at * g->width, &yi, count);
    }
  }
}

/* Runs one stage of any odd radix. */
EC_CLONES static void EC_FN(pass_odd)(size_t r, const EC_FN(stage) * g) {
  CX turn[EC_FFT_RADIX];
  for (size_t j = 0; j < r; j++) turn[j] = g->roots[j * g->m * g->s * g->root_step];
  for (size_t p = 0; p < g->m; p++)
    for (size_t q = 0; q < g->width; q += VECTOR_SIZE) {
      const size_t count = g->width - q < VECTOR_SIZE ? g->width - q : VECTOR_SIZE;
      EC_FN(odd_vector)(r, turn, g, p, q, count);
    }
}

static void EC_FN(transform)(const ec_fft *plan, size_t lanes, EC_T *at[4]);

/* Transforms work[0], work[1] in place, with the others as buffers (pointers are swapped). */
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
    else EC_FN(pass_odd)(r, &g);
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
  EC_T *back[4] = {at[1], at[0], at[3], at[2]}; /* swapped parts: the inverse direction */
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

/* Allocates the plans and the memory of an axis with its lengths and kind set. */
static ec_status EC_FN(prepare)(ec_call *c, ec_fft_axis *axis) {
  size_t count, step = axis->half ? 2 : 1;
  EC_TRY(EC_FN(make_roots)(c, axis->n, &axis->roots));
  EC_TRY(ec_fft_plan(c, axis->n / step, axis->roots, step, &axis->plan));
  if (!axis->plan.count && axis->plan.n > 1) EC_TRY(EC_FN(make_bluestein)(c, &axis->plan));
  /* A spectrum of a real line has one row more. An extra cache line separates rows from those of
   * the next array if the sizes are powers of two. */
  if (!ec_mul_size(axis->plan.room, axis->lanes * 8, &count))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "lines of %zu elements are too long", axis->n);
  axis->room = axis->plan.room * axis->lanes + LANES;
  return ec_call_scratch(c, axis->room * 4, sizeof(EC_T), &axis->work);
}

#include "kernels/fft/lines.tmpl.h"
#undef CX
#undef VECTOR
