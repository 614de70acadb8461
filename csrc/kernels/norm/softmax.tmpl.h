/* Softmax of rows for one dtype. `buffer` holds one row (or SOFTMAX_ROWS of them) in the compute
 * type; steps are in elements. */

static inline EC_ACC EC_FN(exp)(EC_ACC x) {
  return sizeof x == sizeof(float) ? (EC_ACC)ec_exp_f32((float)x) : (EC_ACC)exp((double)x);
}

typedef EC_ACC EC_FN(vector) __attribute__((vector_size(SOFTMAX_LANES * sizeof(EC_ACC))));
typedef __typeof__((EC_FN(vector)){0} > (EC_FN(vector)){0}) EC_FN(mask);

/* Half of a vector, and a quarter: sums and extremes of lanes are a tree, not a chain. */
typedef EC_ACC EC_FN(half) __attribute__((vector_size(SOFTMAX_LANES / 2 * sizeof(EC_ACC))));
typedef EC_ACC EC_FN(quarter) __attribute__((vector_size(SOFTMAX_LANES / 4 * sizeof(EC_ACC))));

static inline EC_ACC EC_FN(larger)(EC_ACC x, EC_ACC y) { return x > y ? x : y; }

SOFTMAX_PART EC_ACC EC_FN(largest_lane)(const EC_FN(vector) *v) {
  EC_FN(half) half[2];
  EC_FN(quarter) quarter[2];
  EC_ACC l[SOFTMAX_LANES / 4];
  memcpy(half, v, sizeof *v);
  const __typeof__(half[0] > half[1]) first = half[0] > half[1];
  half[0] = (EC_FN(half))(((__typeof__(first))half[0] & first) |
                          ((__typeof__(first))half[1] & ~first));
  memcpy(quarter, half, sizeof half[0]);
  const __typeof__(quarter[0] > quarter[1]) front = quarter[0] > quarter[1];
  quarter[0] = (EC_FN(quarter))(((__typeof__(front))quarter[0] & front) |
                                ((__typeof__(front))quarter[1] & ~front));
  memcpy(l, quarter, sizeof l);
  return EC_FN(larger)(EC_FN(larger)(l[0], l[1]), EC_FN(larger)(l[2], l[3]));
}

SOFTMAX_PART double EC_FN(sum_of_lanes)(const EC_FN(vector) *v) {
  EC_FN(half) half[2];
  softmax_doubles wide;
  double l[4], sum[4];
  memcpy(half, v, sizeof *v);
  wide = __builtin_convertvector(half[0], softmax_doubles) +
         __builtin_convertvector(half[1], softmax_doubles);
  memcpy(l, &wide, sizeof l);
  memcpy(sum, (const char *)&wide + sizeof l, sizeof sum);
  for (int i = 0; i < 4; i++) sum[i] += l[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Returns the largest of n numbers. NaNs may be ignored, because the sum propagates them. */
SOFTMAX_PART EC_ACC EC_FN(largest)(const EC_ACC *x, size_t n) {
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
    const EC_ACC one = EC_FN(largest_lane)(&most);
    m = one > m ? one : m;
  }
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

/* Returns the sum of e^(x - m), which replaces x unless `keep`. */
SOFTMAX_PART double EC_FN(exponentials)(EC_ACC *x, size_t n, EC_ACC m, bool keep) {
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
    total += EC_FN(sum_of_lanes)(&sums);
    x += block;
    n -= block;
  }
  return total;
}

/* out = x * scale - shift, where x is the buffer. */
SOFTMAX_PART void EC_FN(write_row)(const EC_ACC *restrict x, size_t n, EC_ACC less, EC_ACC scale,
                                   EC_ACC shift, EC_T *restrict out) {
  for (size_t i = 0; i < n; i++) out[i] = (EC_T)EC_STORE((x[i] - less) * scale - shift);
}

SOFTMAX_PART void EC_FN(read_row)(const EC_T *in, size_t n, EC_ACC *restrict x) {
  for (size_t i = 0; i < n; i++) x[i] = EC_LOAD(in[i]);
}

SOFTMAX_PART bool EC_FN(has_nan)(const EC_ACC *x, size_t n) {
  bool has_nan = false;
  for (size_t i = 0; i < n; i++) has_nan |= x[i] != x[i];
  return has_nan;
}

/* A row with contiguous elements, or one that has been copied to `x` and is written there. */
EC_CLONES static void EC_FN(close_row)(const EC_T *in, EC_T *out, size_t n, EC_ACC *x,
                                       bool log_of, bool zero_rows) {
  if (in) EC_FN(read_row)(in, n, x);
  const EC_ACC m = EC_FN(largest)(x, n);
  if (zero_rows && m == -(EC_ACC)INFINITY && !EC_FN(has_nan)(x, n)) {
    memset(x, 0, n * sizeof *x);
    if (out) EC_FN(write_row)(x, n, 0, 1, 0, out);
    return;
  }
  const double sum = EC_FN(exponentials)(x, n, m, log_of);
  const EC_ACC scale = log_of ? 1 : (EC_ACC)(1 / sum), shift = log_of ? (EC_ACC)log(sum) : 0;
  if (out) { /* a logarithm in two steps: their sum would lose digits of a large m */
    EC_FN(write_row)(x, n, log_of ? m : 0, scale, shift, out);
    return;
  }
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - (log_of ? m : 0)) * scale - shift;
}

static void EC_FN(softmax_row)(const char *from, int64_t step, char *to, int64_t to_step, size_t n,
                               void *buffer, bool log_of, bool zero_rows) {
  const EC_T *in = (const EC_T *)from;
  EC_T *out = (EC_T *)to;
  EC_ACC *x = buffer;
  for (size_t i = 0; step != 1 && i < n; i++) x[i] = EC_LOAD(in[(int64_t)i * step]);
  EC_FN(close_row)(step == 1 ? in : NULL, to_step == 1 ? out : NULL, n, x, log_of,
                   zero_rows);
  for (size_t i = 0; to_step != 1 && i < n; i++) out[(int64_t)i * to_step] = (EC_T)EC_STORE(x[i]);
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
                                 size_t n, void *buffer, bool log_of, bool zero_rows) {
  (void)zero_rows; /* such rows are not computed here */
  EC_ACC m[SOFTMAX_ROWS], scale[SOFTMAX_ROWS], shift[SOFTMAX_ROWS];
  EC_FN(read_lanes)((const EC_T *)from, step, n, buffer, m);
  EC_FN(sum_lanes)(buffer, n, m, log_of, scale);
  for (size_t l = 0; l < SOFTMAX_ROWS; l++) {
    shift[l] = log_of ? (EC_ACC)log((double)scale[l]) : 0;
    scale[l] = log_of ? 1 : 1 / scale[l];
  }
  EC_FN(write_lanes)(buffer, n, scale, shift, (EC_T *)to, to_step);
}
