/* Samples at the positions of a grid. Rounding and non-finite coordinates follow eager, separately
 * for planes and volumes. */

static EC_C EC_FN(unnormalized)(const sampler *s, EC_C x, EC_C n) {
  if (s->planar)
    return s->align ? (x + 1) * ((n - 1) / 2) : (x + 1) * (n / 2) - (EC_C)0.5;
  return s->align ? (x + 1) / 2 * (n - 1) : ((x + 1) * n - 1) / 2;
}

static EC_C EC_FN(reflected)(const sampler *s, EC_C x, EC_C n) {
  const EC_C low = s->align ? 0 : (EC_C)-0.5, span = s->align ? n - 1 : n;
  if (span == 0) return 0;
  const double y = fabs((double)(x - low));
  if (s->planar) {
    const EC_C flips = (EC_C)trunc((double)((EC_C)y / (2 * span)));
    const EC_C rest = (EC_C)y - flips * (2 * span);
    return (rest < 2 * span - rest ? rest : 2 * span - rest) + low;
  }
  const EC_C rest = (EC_C)fmod(y, (double)span);
  const double flips = floor((double)((EC_C)y / span));
  return (flips <= INT32_MAX && ((int64_t)flips & 1) ? span - rest : rest) + low;
}

/* Returns the position to read on the axis: inside, unless the padding is zeros. */
static EC_C EC_FN(padded)(const sampler *s, EC_C x, EC_C n) {
  if (s->padding == PAD_REFLECTION) x = EC_FN(reflected)(s, x, n);
  if (s->padding != PAD_ZEROS) {
    if (s->planar) x = !(x > 0) ? 0 : x < n - 1 ? x : n - 1;
    else x = x < 0 ? 0 : x < n - 1 ? x : n - 1;
  }
  const bool is_int = x <= (EC_C)(INT32_MAX - 1) && x >= (EC_C)INT32_MIN;
  return s->planar || is_int ? x : -100;
}

/* Computes the neighbours of one coordinate along an axis of n positions (offsets, NOWHERE
 * outside). */
static void EC_FN(neighbours)(const sampler *s, EC_C x, size_t d, int64_t *at, EC_C *w) {
  const EC_C n = (EC_C)s->in.sizes[d];
  x = EC_FN(unnormalized)(s, x, n);
  if (s->mode != GRID_BICUBIC) x = EC_FN(padded)(s, x, n);
  const EC_C whole = (EC_C)(s->mode == GRID_NEAREST ? nearbyint((double)x) : floor((double)x));
  const EC_C t = x - whole, u = 1 - t, a = (EC_C)-0.75;
  w[0] = s->mode == GRID_NEAREST ? 1 : u;
  w[1] = t;
  if (s->mode == GRID_BICUBIC) {
    w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
    w[3] = ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a;
  }
  for (int j = 0; j < s->taps; j++) {
    EC_C p = whole + (EC_C)(s->mode == GRID_BICUBIC ? j - 1 : j);
    if (s->mode == GRID_BICUBIC) p = EC_FN(padded)(s, p, n);
    at[j] = p >= 0 && p <= n - 1 ? (int64_t)p * s->in.strides[d] : NOWHERE;
  }
}

/* Computes offsets and weights of point `i` of a block, for all axes. */
static void EC_FN(add_point)(const sampler *s, const EC_T *grid, int64_t i, int64_t *at, EC_C *w) {
  int64_t place[EC_RESIZE_AXES][4] = {{0}};
  EC_C weight[EC_RESIZE_AXES][4] = {{1}};
  const int deep = s->planar ? 1 : s->taps;
  for (size_t d = s->planar ? 3 : 2; d < EC_RESIZE_RANK; d++) {
    const EC_T g = grid[(int64_t)(EC_RESIZE_RANK - 1 - d) * s->grid_step];
    EC_FN(neighbours)(s, EC_LOAD(g), d, place[d - 2], weight[d - 2]);
  }
  for (int z = 0; z < deep; z++)
    for (int y = 0; y < s->taps; y++)
      for (int x = 0; x < s->taps; x++, i += GRID_BLOCK) {
        const int64_t a = place[0][z], b = place[1][y], c = place[2][x];
        at[i] = a < 0 || b < 0 || c < 0 ? NOWHERE : a + b + c;
        w[i] = weight[0][z] * weight[1][y] * weight[2][x];
      }
}

/* Samples up to GRID_BLOCK points of a line, in all channels. */
static void EC_FN(sample)(const sampler *s, int64_t n, const char *grid, const char *in,
                          char *out) {
  int64_t at[GRID_TAPS * GRID_BLOCK];
  EC_C w[GRID_TAPS * GRID_BLOCK], sums[GRID_BLOCK];
  const int all = s->taps * s->taps * (s->planar ? 1 : s->taps);
  for (int64_t i = 0; i < n; i++)
    EC_FN(add_point)(s, (const EC_T *)(const void *)grid + i * s->grid_line, i, at, w);
  for (int64_t c = 0; c < s->in.sizes[1]; c++) {
    const EC_T *from = (const EC_T *)(const void *)in + c * s->in.strides[1];
    EC_T *to = (EC_T *)(void *)out + c * s->out.strides[1];
    for (int64_t i = 0; i < n; i++) sums[i] = 0;
    for (int k = 0; k < all; k++)
      for (int64_t i = 0; i < n; i++) {
        const int64_t p = at[k * GRID_BLOCK + i];
        sums[i] += w[k * GRID_BLOCK + i] * (p < 0 ? (EC_C)0 : EC_LOAD(from[p]));
      }
    for (int64_t i = 0; i < n; i++) to[i * s->out.strides[4]] = EC_STORE(sums[i]);
  }
}
