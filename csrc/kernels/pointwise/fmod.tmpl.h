/* fmod, remainder and floor division in EC_T, for loops that vectorise. The including file defines
 * EC_FN(fmod_of)(x, y, &rare): fmod(x, y), or `rare` set if libm must compute it. */

/* As EC_FN(modulo) and EC_FN(floor_quotient) of arith.tmpl.h. */
EC_INLINE EC_T EC_FN(modulo_of)(EC_T mod, EC_T y) {
  const EC_T moved = mod + y;
  return (mod != 0) & ((y < 0) != (mod < 0)) ? moved : mod;
}

EC_INLINE EC_T EC_FN(floor_quotient_of)(EC_T x, EC_T y, EC_T mod) {
  const EC_T whole = (x - mod) / y, ratio = x / y, below = whole - 1;
  const EC_T q = (mod != 0) & ((y < 0) != (mod < 0)) ? below : whole;
  const EC_T down = floor(q), up = down + 1;
  const EC_T nearest = q - down > (EC_T)0.5 ? up : down;
  const EC_T result = q == 0 ? copysign((EC_T)0, ratio) : nearest;
  return y == 0 ? ratio : result;
}

enum { EC_FN(FMOD), EC_FN(MODULO), EC_FN(FLOOR_QUOTIENT) };

/* Processes blocks as sin_loop does. libm recomputes the few large quotients, infinities and
 * NaN. */
EC_INLINE void EC_FN(fmod_loop)(int64_t n, char *const *at, const int64_t *step, int form) {
  enum { BLOCK = 128 };
  EC_T x[BLOCK], y[BLOCK], z[BLOCK];
  EC_FMOD_FLAG rare[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    EC_FMOD_FLAG any = 0;
    for (int64_t k = 0; k < m; k++) {
      x[k] = *(const EC_T *)(const void *)(at[1] + (i + k) * step[1]);
      y[k] = *(const EC_T *)(const void *)(at[2] + (i + k) * step[2]);
    }
    for (int64_t k = 0; k < m; k++) {
      z[k] = EC_FN(fmod_of)(x[k], y[k], &rare[k]);
      any |= rare[k];
    }
    for (int64_t k = 0; any && k < m; k++)
      if (rare[k]) z[k] = fmod(x[k], y[k]);
    for (int64_t k = 0; form == EC_FN(MODULO) && k < m; k++) z[k] = EC_FN(modulo_of)(z[k], y[k]);
    for (int64_t k = 0; form == EC_FN(FLOOR_QUOTIENT) && k < m; k++)
      z[k] = EC_FN(floor_quotient_of)(x[k], y[k], z[k]);
    for (int64_t k = 0; k < m; k++) *(EC_T *)(void *)(at[0] + (i + k) * step[0]) = z[k];
  }
}

static void EC_FN(fast_fmod)(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  (void)params;
  EC_FN(fmod_loop)(n, at, step, EC_FN(FMOD));
}

static void EC_FN(fast_remainder)(int64_t n, char *const *at, const int64_t *step,
                                  ec_params *params) {
  (void)params;
  EC_FN(fmod_loop)(n, at, step, EC_FN(MODULO));
}

static void EC_FN(fast_div_floor)(int64_t n, char *const *at, const int64_t *step,
                                  ec_params *params) {
  (void)params;
  EC_FN(fmod_loop)(n, at, step, EC_FN(FLOOR_QUOTIENT));
}
