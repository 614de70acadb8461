/* fmod, remainder and floor division of integers of up to four bytes. Vectors can divide only
 * floating-point numbers. A quotient x / y that is not an integer is at least 1 / y away from one,
 * and rounding moves it by less as long as x has fewer bits than the significand. */
#define EC_FRACTION __typeof__(__builtin_choose_expr(sizeof(EC_T) < 4, (float)0, (double)0))
#define EC_WHOLE __typeof__(__builtin_choose_expr(EC_ID == EC_UINT32, (int64_t)0, (int32_t)0))

/* Replaces divisors without a quotient by 1: 0, which is reported, and -1 with the minimum, whose
 * result wraps to that of 1 (0 for unsigned types). */
EC_INLINE void EC_FN(mend)(int64_t n, const EC_T *x, EC_T *y, ec_params *params) {
  EC_T zero = 0;
  for (int64_t k = 0; k < n; k++) {
    zero |= y[k] == 0;
    const bool wraps = (x[k] == EC_LOWEST) & (y[k] == (EC_T)-1);
    y[k] = (y[k] == 0) | wraps ? 1 : y[k];
  }
  if (zero) params->zero_division = true;
}

EC_INLINE EC_T EC_FN(quotient)(EC_T x, EC_T y) {
  return (EC_T)(EC_WHOLE)((EC_FRACTION)x / (EC_FRACTION)y);
}

EC_INLINE EC_T EC_FN(fmod_of)(EC_T x, EC_T y) {
  return (EC_T)((EC_U)x - (EC_U)EC_FN(quotient)(x, y) * (EC_U)y);
}

EC_INLINE EC_T EC_FN(modulo)(EC_T x, EC_T y) {
  const EC_T r = EC_FN(fmod_of)(x, y);
#if EC_IS_SIGNED
  return (EC_T)((EC_U)r + ((EC_U)y & (0 - (EC_U)((r != 0) & ((r ^ y) < 0)))));
#else
  return r;
#endif
}

EC_INLINE EC_T EC_FN(floor_quotient)(EC_T x, EC_T y) {
  const EC_T q = EC_FN(quotient)(x, y);
#if EC_IS_SIGNED
  return (EC_T)((EC_U)q - (EC_U)((EC_FN(fmod_of)(x, y) != 0) & ((x ^ y) < 0)));
#else
  return q;
#endif
}

EC_INLINE void EC_FN(divide_loop)(int64_t n, char *const *at, const int64_t *step,
                                  ec_params *params, EC_T (*form)(EC_T x, EC_T y)) {
  enum { BLOCK = 256, ITEM = sizeof(EC_T) };
  EC_T x[BLOCK], y[BLOCK], z[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    ec_move(ITEM, m, (char *)x, ITEM, at[1] + i * step[1], step[1]);
    ec_move(ITEM, m, (char *)y, ITEM, at[2] + i * step[2], step[2]);
    EC_FN(mend)(m, x, y, params);
    for (int64_t k = 0; k < m; k++) z[k] = form(x[k], y[k]);
    ec_move(ITEM, m, at[0] + i * step[0], step[0], (const char *)z, ITEM);
  }
}

EC_CLONES static void EC_FN(fast_fmod)(int64_t n, char *const *at, const int64_t *step,
                                       ec_params *params) {
  EC_FN(divide_loop)(n, at, step, params, EC_FN(fmod_of));
}

EC_CLONES static void EC_FN(fast_remainder)(int64_t n, char *const *at, const int64_t *step,
                                            ec_params *params) {
  EC_FN(divide_loop)(n, at, step, params, EC_FN(modulo));
}

EC_CLONES static void EC_FN(fast_div_floor)(int64_t n, char *const *at, const int64_t *step,
                                            ec_params *params) {
  EC_FN(divide_loop)(n, at, step, params, EC_FN(floor_quotient));
}
#undef EC_FRACTION
#undef EC_WHOLE
