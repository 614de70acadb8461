/* A loop named EC_NAME with the expression EC_Q(x, s, z); input and zero points are EC_X, scales
 * and the result EC_C. `bounds` are the call's quant_min and quant_max. */
static void EC_FN(EC_NAME)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  const EC_FN(bounds) bounds = EC_FN(bounds_of)(params);
  const int64_t in = (int64_t)sizeof(EC_X), out = (int64_t)sizeof(EC_C);
  const EC_X *x = (const EC_X *)(const void *)at[1], *z = (const EC_X *)(const void *)at[3];
  const EC_C *s = (const EC_C *)(const void *)at[2];
  EC_C *o = (EC_C *)(void *)at[0];
  const bool rows = step[0] == out && step[1] == in;
  (void)bounds;
  if (rows && step[2] == 0 && step[3] == 0) {
    const EC_C scale = *s;
    const EC_X zero = *z;
    for (int64_t i = 0; i < n; i++) o[i] = EC_Q(x[i], scale, zero);
  } else if (rows && step[2] == out && (step[3] == in || step[3] == 0)) {
    for (int64_t i = 0, k = step[3] ? 1 : 0; i < n; i++) o[i] = EC_Q(x[i], s[i], z[i * k]);
  } else {
    for (int64_t i = 0; i < n; i++)
      EC_AT(EC_C, 0, i) =
          EC_Q(EC_AT(const EC_X, 1, i), EC_AT(const EC_C, 2, i), EC_AT(const EC_X, 3, i));
  }
}

#undef EC_NAME
#undef EC_X
#undef EC_Q
