/* Softmax of rows for one dtype. `buffer` holds one row (or SOFTMAX_ROWS of them) in the compute
 * type; steps are in elements. */

static inline EC_ACC EC_FN(exp)(EC_ACC x) {
  return sizeof x == sizeof(float) ? (EC_ACC)ec_exp_f32((float)x) : (EC_ACC)exp((double)x);
}

typedef EC_ACC EC_FN(vector) __attribute__((vector_size(SOFTMAX_LANES * sizeof(EC_ACC))));
typedef __typeof__((EC_FN(vector)){0} > (EC_FN(vector)){0}) EC_FN(mask);

/* Returns the largest of n numbers. NaNs may be ignored, because the sum propagates them. */
EC_CLONES static EC_ACC EC_FN(largest)(const EC_ACC *x, size_t n) {
  EC_ACC m = x[0];
  size_t i = 0;
  if (n >= SOFTMAX_LANES) {
    EC_FN(vector) most, v;
    memcpy(&most, x, sizeof most);
    for (i = SOFTMAX_LANES; i + SOFTMAX_LANES <= n; i += SOFTMAX_LANES) {
      memcpy(&v, x + i, sizeof v);
      const EC_FN(mask) larger = v > most;
      most = (EC_FN(vector))(((EC_FN(mask))v & larger) | ((EC_FN(mask))most & ~larger));
    }
    for (size_t l = 0; l < SOFTMAX_LANES; l++) m = most[l] > m ? most[l] : m;
  }
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

/* Returns the sum of e^(x - m), which replaces x unless `keep`. */
EC_CLONES static double EC_FN(exponentials)(EC_ACC *x, size_t n, EC_ACC m, bool keep) {
  double total = 0;
  while (n) {
    EC_FN(vector) sums = {0}, v;
    EC_ACC e[SOFTMAX_LANES];
    size_t block = n < SOFTMAX_BLOCK ? n : SOFTMAX_BLOCK, i = 0;
    for (; i + SOFTMAX_LANES <= block; i += SOFTMAX_LANES) {
      for (size_t l = 0; l < SOFTMAX_LANES; l++) e[l] = EC_FN(exp)(x[i + l] - m);
      memcpy(&v, e, sizeof v);
      sums += v;
      if (!keep) memcpy(x + i, &v, sizeof v);
    }
    for (size_t l = 0; i < block; i++, l++) {
      e[0] = EC_FN(exp)(x[i] - m);
      sums[l] += e[0];
      if (!keep) x[i] = e[0];
    }
    for (size_t l = 0; l < SOFTMAX_LANES; l++) total += (double)sums[l];
    x += block;
    n -= block;
  }
  return total;
}

/* out = x * scale - shift, where x is the buffer. */
EC_CLONES static void EC_FN(write_row)(const EC_ACC *restrict x, size_t n, EC_ACC scale,
                                       EC_ACC shift, EC_T *restrict out) {
  for (size_t i = 0; i < n; i++) out[i] = (EC_T)EC_STORE(x[i] * scale - shift);
}

EC_CLONES static void EC_FN(read_row)(const EC_T *in, size_t n, EC_ACC *restrict x) {
  for (size_t i = 0; i < n; i++) x[i] = EC_LOAD(in[i]);
}

static void EC_FN(softmax_row)(const char *from, int64_t step, char *to, int64_t to_step, size_t n,
                               void *buffer, bool log_of) {
  const EC_T *in = (const EC_T *)from;
  EC_T *out = (EC_T *)to;
  EC_ACC *x = buffer;
  if (step == 1) EC_FN(read_row)(in, n, x);
  else
    for (size_t i = 0; i < n; i++) x[i] = EC_LOAD(in[(int64_t)i * step]);
  EC_ACC m = EC_FN(largest)(x, n);
  double sum = EC_FN(exponentials)(x, n, m, log_of);
  EC_ACC scale = log_of ? 1 : (EC_ACC)(1 / sum), shift = 0;
  if (log_of) { /* in two steps: their sum would lose digits of a large m */
    for (size_t i = 0; i < n; i++) x[i] -= m;
    shift = (EC_ACC)log(sum);
  }
  if (to_step == 1) EC_FN(write_row)(x, n, scale, shift, out);
  else
    for (size_t i = 0; i < n; i++)
      out[(int64_t)i * to_step] = (EC_T)EC_STORE(x[i] * scale - shift);
}

/* Reads SOFTMAX_ROWS rows that are adjacent in both tensors; one of three passes. */
EC_CLONES static void EC_FN(read_lanes)(const EC_T *in, int64_t step, size_t n,
                                        EC_ACC *restrict x, EC_ACC *restrict largest) {
  EC_ACC m[SOFTMAX_ROWS];
  for (size_t l = 0; l < SOFTMAX_ROWS; l++) m[l] = EC_LOAD(in[l]);
  for (size_t i = 0; i < n; i++, in += step, x += SOFTMAX_ROWS) {
    for (size_t l = 0; l < SOFTMAX_ROWS; l++) x[l] = EC_LOAD(in[l]);
    for (size_t l = 0; l < SOFTMAX_ROWS; l++) m[l] = x[l] > m[l] ? x[l] : m[l];
  }
  memcpy(largest, m, sizeof m);
}

/* Replaces x by x - m, or by e^(x - m) unless `keep`, and sums the latter. */
EC_CLONES static void EC_FN(sum_lanes)(EC_ACC *restrict x, size_t n, const EC_ACC *restrict m,
                                       bool keep, EC_ACC *restrict sums) {
  EC_ACC sum[SOFTMAX_ROWS] = {0}, e[SOFTMAX_ROWS];
  for (size_t i = 0; i < n; i++, x += SOFTMAX_ROWS) {
    for (size_t l = 0; l < SOFTMAX_ROWS; l++) x[l] -= m[l];
    for (size_t l = 0; l < SOFTMAX_ROWS; l++) e[l] = EC_FN(exp)(x[l]);
    for (size_t l = 0; l < SOFTMAX_ROWS; l++) sum[l] += e[l];
    if (!keep) memcpy(x, e, sizeof e);
  }
  memcpy(sums, sum, sizeof sum);
}

EC_CLONES static void EC_FN(write_lanes)(const EC_ACC *restrict x, size_t n,
                                         const EC_ACC *restrict scale,
                                         const EC_ACC *restrict shift, EC_T *restrict out,
                                         int64_t step) {
  for (size_t i = 0; i < n; i++, x += SOFTMAX_ROWS, out += step)
    for (size_t l = 0; l < SOFTMAX_ROWS; l++)
      out[l] = (EC_T)EC_STORE(x[l] * scale[l] - shift[l]);
}

static void EC_FN(softmax_lanes)(const char *from, int64_t step, char *to, int64_t to_step,
                                 size_t n, void *buffer, bool log_of) {
  EC_ACC m[SOFTMAX_ROWS], scale[SOFTMAX_ROWS], shift[SOFTMAX_ROWS];
  EC_FN(read_lanes)((const EC_T *)from, step, n, buffer, m);
  EC_FN(sum_lanes)(buffer, n, m, log_of, scale);
  for (size_t l = 0; l < SOFTMAX_ROWS; l++) {
    shift[l] = log_of ? (EC_ACC)log((double)scale[l]) : 0;
    scale[l] = log_of ? 1 : 1 / scale[l];
  }
  EC_FN(write_lanes)(buffer, n, scale, shift, (EC_T *)to, to_step);
}
