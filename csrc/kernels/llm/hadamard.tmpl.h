/* Hadamard transforms of one row, in the compute type. */

/* Multiplies n = 2^k numbers by Sylvester's matrix: sums and differences at growing distances. */
EC_CLONES static void EC_FN(sylvester)(EC_ACC *x, int64_t n) {
  for (int64_t h = 1; h < n; h *= 2)
    for (int64_t i = 0; i < n; i += 2 * h)
      for (int64_t j = i; j < i + h; j++) {
        const EC_ACC a = x[j], b = x[j + h];
        x[j] = a + b;
        x[j + h] = a - b;
      }
}

/* y = the matrix of order ORDER times ORDER rows of n numbers. */
EC_CLONES static void EC_FN(combine)(const EC_ACC *restrict x, int64_t n, EC_ACC *restrict y) {
  for (int i = 0; i < ORDER; i++, y += n) {
    for (int64_t c = 0; c < n; c++) y[c] = 0;
    for (int j = 0; j < ORDER; j++) {
      const EC_ACC sign = get_sign(i, j);
      for (int64_t c = 0; c < n; c++) y[c] += sign * x[j * n + c];
    }
  }
}

/* Transforms a row of n numbers, of blocks of `part` numbers; `buffer` has room for 2 n. */
static void EC_FN(hadamard)(const char *from, int64_t n, int64_t part, char *to, void *buffer) {
  const EC_T *in = (const EC_T *)from;
  EC_T *out = (EC_T *)to;
  EC_ACC *x = buffer;
  const EC_ACC scale = (EC_ACC)(1 / sqrt((double)part));
  for (int64_t i = 0; i < n; i++) x[i] = EC_LOAD(in[i]);
  for (int64_t i = 0; i < n; i += part) EC_FN(sylvester)(x + i, part);
  if (part < n) {
    EC_FN(combine)(x, part, x + n);
    x += n;
  }
  for (int64_t i = 0; i < n; i++) out[i] = (EC_T)EC_STORE(x[i] * scale);
}
