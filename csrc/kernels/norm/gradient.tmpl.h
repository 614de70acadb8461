/* Gradients of the normalisations for one dtype. */

typedef EC_ACC EC_FN(vector) __attribute__((vector_size(NORM_LANES * sizeof(EC_ACC))));

/* Sums of g * w and of g * w * (x - mean); no w: 1. Lanes sum in the compute type, blocks of them
 * in double. */
EC_CLONES static void EC_FN(gradient_sums)(const void *grad, const void *in, const void *weight,
                                           size_t n, double mean, double *plain, double *centered) {
  const EC_T *g = grad, *x = in;
  const EC_ACC *w = weight, m = (EC_ACC)mean;
  for (size_t start = 0; start < n; start += NORM_BLOCK) {
    EC_FN(vector) a = {0}, b = {0}, u, v; /* arrays would stay in scalar registers */
    EC_ACC left[NORM_LANES], right[NORM_LANES];
    size_t end = n - start < NORM_BLOCK ? n : start + NORM_BLOCK, i = start;
    for (; i + NORM_LANES <= end; i += NORM_LANES) {
      for (size_t l = 0; l < NORM_LANES; l++) left[l] = EC_LOAD(g[i + l]);
      for (size_t l = 0; w && l < NORM_LANES; l++) left[l] *= w[i + l];
      for (size_t l = 0; l < NORM_LANES; l++) right[l] = EC_LOAD(x[i + l]) - m;
      memcpy(&u, left, sizeof u);
      memcpy(&v, right, sizeof v);
      a += u;
      b += u * v;
    }
    for (size_t l = 0; i < end; i++, l++) {
      EC_ACC one = w ? EC_LOAD(g[i]) * w[i] : EC_LOAD(g[i]);
      a[l] += one;
      b[l] += one * (EC_LOAD(x[i]) - m);
    }
    for (size_t l = 0; l < NORM_LANES; l++) {
      *plain += (double)a[l];
      *centered += (double)b[l];
    }
  }
}

/* Adds a row to the gradients of weights and biases, one per element. */
EC_CLONES static void EC_FN(gradient_columns)(const void *grad, const void *in, size_t n,
                                              double mean, double rstd, double *restrict weights,
                                              double *restrict biases) {
  const EC_T *g = grad, *x = in;
  const EC_ACC m = (EC_ACC)mean, r = (EC_ACC)rstd;
  for (size_t i = 0; i < n; i++) {
    weights[i] += (double)(EC_LOAD(g[i]) * ((EC_LOAD(x[i]) - m) * r));
    biases[i] += (double)EC_LOAD(g[i]);
  }
}

/* out = g * w * scale + (x - mean) * slope + shift; no w: 1 */
EC_CLONES static void EC_FN(gradient_input)(const void *grad, const void *in, const void *weight,
                                            void *to, size_t n, const double p[4]) {
  const EC_T *g = grad, *x = in;
  const EC_ACC *w = weight;
  EC_T *out = to;
  EC_ACC mean = (EC_ACC)p[0], scale = (EC_ACC)p[1], slope = (EC_ACC)p[2], shift = (EC_ACC)p[3];
  if (w)
    for (size_t i = 0; i < n; i++)
      out[i] = (EC_T)EC_STORE(EC_LOAD(g[i]) * w[i] * scale + (EC_LOAD(x[i]) - mean) * slope +
                              shift);
  else
    for (size_t i = 0; i < n; i++)
      out[i] = (EC_T)EC_STORE(EC_LOAD(g[i]) * scale + (EC_LOAD(x[i]) - mean) * slope + shift);
}
