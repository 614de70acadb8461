/* Loops of the normalisations for one dtype. */

typedef EC_ACC EC_FN(vector) __attribute__((vector_size(NORM_LANES * sizeof(EC_ACC))));

/* Returns the sum of x - shift over n elements (squares: squared). Lanes sum in the compute type,
 * blocks of them in double. */
EC_CLONES static double EC_FN(sum)(const EC_T *x, size_t n, EC_ACC shift, bool squares) {
  double total = 0;
  while (n) {
    EC_FN(vector) sums = {0}, v;
    EC_ACC row[NORM_LANES];
    size_t block = n < NORM_BLOCK ? n : NORM_BLOCK, i = 0;
    for (; i + NORM_LANES <= block; i += NORM_LANES) {
      for (size_t l = 0; l < NORM_LANES; l++) row[l] = EC_LOAD(x[i + l]) - shift;
      memcpy(&v, row, sizeof v);
      sums += squares ? v * v : v;
    }
    for (size_t l = 0; i < block; i++, l++) {
      EC_ACC one = EC_LOAD(x[i]) - shift;
      sums[l] += squares ? one * one : one;
    }
    for (size_t l = 0; l < NORM_LANES; l++) total += (double)sums[l];
    x += block;
    n -= block;
  }
  return total;
}

static void EC_FN(moments)(const void *x, size_t n, double *mean, double *squares) {
  *mean = n ? EC_FN(sum)(x, n, 0, false) / (double)n : 0;
  *squares = EC_FN(sum)(x, n, (EC_ACC)*mean, true);
}

EC_CLONES static void EC_FN(normalize)(const void *in, const void *weight, const void *bias,
                                       void *to, size_t n, double mean, double rstd) {
  const EC_T *x = in;
  const EC_ACC *w = weight, *b = bias;
  EC_T *out = to;
  EC_ACC m = (EC_ACC)mean, r = (EC_ACC)rstd;
  if (w && b)
    for (size_t i = 0; i < n; i++)
      out[i] = (EC_T)EC_STORE((EC_LOAD(x[i]) - m) * r * w[i] + b[i]);
  else if (w)
    for (size_t i = 0; i < n; i++) out[i] = (EC_T)EC_STORE((EC_LOAD(x[i]) - m) * r * w[i]);
  else
    for (size_t i = 0; i < n; i++)
      out[i] = (EC_T)EC_STORE((EC_LOAD(x[i]) - m) * r + (b ? b[i] : 0));
}

EC_CLONES static void EC_FN(affine)(const void *in, void *to, size_t n, double mean,
                                    double scale, double shift) {
  const EC_T *x = in;
  EC_T *out = to;
  EC_ACC m = (EC_ACC)mean, a = (EC_ACC)scale, b = (EC_ACC)shift;
  for (size_t i = 0; i < n; i++) out[i] = (EC_T)EC_STORE((EC_LOAD(x[i]) - m) * a + b);
}

EC_CLONES static void EC_FN(per_element)(const EC_T *x, const EC_ACC *scale, const EC_ACC *shift,
                                         EC_T *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = (EC_T)EC_STORE(EC_LOAD(x[i]) * scale[i] + shift[i]);
}

static void EC_FN(channels)(int64_t n, char *const *at, const int64_t *step, const void *params) {
  (void)params;
  bool contiguous = step[0] == sizeof(EC_T) && step[1] == sizeof(EC_T);
  if (contiguous && (n == 1 || step[2] == 0)) {
    EC_FN(affine)(at[1], at[0], (size_t)n, 0, (double)*(const EC_ACC *)at[2],
                  (double)*(const EC_ACC *)at[3]);
    return;
  }
  if (contiguous && step[2] == sizeof(EC_ACC)) {
    EC_FN(per_element)((const EC_T *)at[1], (const EC_ACC *)at[2], (const EC_ACC *)at[3],
                       (EC_T *)at[0], (size_t)n);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    EC_ACC x = EC_LOAD(*(const EC_T *)(at[1] + i * step[1]));
    *(EC_T *)(at[0] + i * step[0]) = (EC_T)EC_STORE(x * *(const EC_ACC *)(at[2] + i * step[2]) +
                                                    *(const EC_ACC *)(at[3] + i * step[3]));
  }
}
