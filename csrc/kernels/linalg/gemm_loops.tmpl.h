/* Packing, storing and the plain product for one dtype; EC_G is the compute type. */

static inline EC_G EC_FN(get)(EC_T x) { return (EC_G)EC_LOAD(x); }

/* Packs a panel of a strided matrix, with separate loops for contiguous k and contiguous lanes. */
static void EC_FN(pack)(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                        void *packed) {
  const EC_T *from = (const EC_T *)side->data + panel->lane0 * side->lane + panel->k0 * side->k;
  EC_G *to = packed;
  size_t lanes = (size_t)panel->lanes, depth = (size_t)panel->depth;
  if (side->lane == 1 && lanes == width) {
    for (size_t i = 0; i < depth; i++, from += side->k, to += width)
      for (size_t l = 0; l < width; l++) to[l] = EC_FN(get)(from[l]);
    return;
  }
  for (size_t l = 0; l < lanes; l++, from += side->lane) {
    const EC_T *f = from;
    for (size_t i = 0; i < depth; i++, f += side->k) to[i * width + l] = EC_FN(get)(*f);
  }
  for (size_t i = 0; i < depth && lanes < width; i++)
    memset(to + i * width + lanes, 0, (width - lanes) * sizeof *to);
}

static EC_G EC_FN(factor)(ec_scalar s) {
  if (s.kind == EC_KIND_NONE) return (EC_G)1;
#if EC_IS_FLOAT || EC_IS_COMPLEX
  return (EC_G)ec_scalar_double(s);
#else
  return (EC_G)ec_scalar_int(s);
#endif
}

/* The general store: any factors, any D. */
static void EC_FN(store_scaled)(const ec_gemm_out *out, const ec_gemm_tile *tile, bool plain) {
  EC_G alpha = EC_FN(factor)(out->alpha), beta = EC_FN(factor)(out->beta);
  const EC_G *sums = tile->sums;
  for (int64_t r = 0; r < tile->rows; r++) {
    EC_T *to = (EC_T *)out->data + (tile->row + r) * out->row + tile->col * out->col;
    const EC_T *add = out->add ? (const EC_T *)out->add + (tile->row + r) * out->add_row +
                                     tile->col * out->add_col
                               : NULL;
    for (int64_t i = 0; i < tile->cols; i++, to += out->col) {
      EC_G x = sums ? sums[(size_t)r * tile->stride + (size_t)i] : (EC_G)0;
      if (!plain) x = ec_times(alpha, x);
      if (add) {
        x += plain ? EC_FN(get)(*add) : ec_times(beta, EC_FN(get)(*add));
        add += out->add_col;
      }
      *to = (EC_T)EC_STORE(x);
    }
  }
}

/* Stores contiguous rows without factors; D is absent, repeated along the row, or contiguous like
 * C. */
static void EC_FN(store)(const ec_gemm_out *out, const ec_gemm_tile *tile) {
  bool plain = out->alpha.kind == EC_KIND_NONE && out->beta.kind == EC_KIND_NONE;
  if (!plain || out->col != 1 || !tile->sums || (out->add && out->add_col > 1)) {
    EC_FN(store_scaled)(out, tile, plain);
    return;
  }
  size_t cols = (size_t)tile->cols;
  for (int64_t r = 0; r < tile->rows; r++) {
    const EC_G *sums = (const EC_G *)tile->sums + (size_t)r * tile->stride;
    EC_T *to = (EC_T *)out->data + (tile->row + r) * out->row + tile->col;
    const EC_T *add = out->add;
    if (add) add += (tile->row + r) * out->add_row + tile->col * out->add_col;
    if (!add) {
      for (size_t i = 0; i < cols; i++) to[i] = (EC_T)EC_STORE(sums[i]);
    } else if (out->add_col) {
      for (size_t i = 0; i < cols; i++) to[i] = (EC_T)EC_STORE(sums[i] + EC_FN(get)(add[i]));
    } else {
      EC_G x = EC_FN(get)(*add);
      for (size_t i = 0; i < cols; i++) to[i] = (EC_T)EC_STORE(sums[i] + x);
    }
  }
}

/* sums[j] = sum over k of a[k] * b[k][j]. B is read once, four rows at a time. */
EC_CLONES static void EC_FN(axpy)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                                  int64_t row, void *out) {
  const EC_T *x = (const EC_T *)a->data + row * a->lane, *y = b->data;
  EC_G *restrict sums = out;
  size_t n = (size_t)g->n;
  memset(sums, 0, n * sizeof *sums);
  int64_t k = 0;
  for (; k + 4 <= g->k; k += 4) {
    EC_G x0 = EC_FN(get)(x[k * a->k]), x1 = EC_FN(get)(x[(k + 1) * a->k]);
    EC_G x2 = EC_FN(get)(x[(k + 2) * a->k]), x3 = EC_FN(get)(x[(k + 3) * a->k]);
    const EC_T *y0 = y + k * b->k, *y1 = y0 + b->k, *y2 = y1 + b->k, *y3 = y2 + b->k;
    for (size_t j = 0; j < n; j++)
      sums[j] += (ec_times(x0, EC_FN(get)(y0[j])) + ec_times(x1, EC_FN(get)(y1[j]))) +
                 (ec_times(x2, EC_FN(get)(y2[j])) + ec_times(x3, EC_FN(get)(y3[j])));
  }
  for (; k < g->k; k++) {
    EC_G x0 = EC_FN(get)(x[k * a->k]);
    const EC_T *y0 = y + k * b->k;
    for (size_t j = 0; j < n; j++) sums[j] += ec_times(x0, EC_FN(get)(y0[j]));
  }
}

/* sums[j] = sum over k of a[k] * b[j][k], in 32 partial sums, for accuracy and without a dependency
 * chain. */
EC_CLONES static void EC_FN(dot)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                                 int64_t row, void *out) {
  enum { PARTS = 32 };
  const EC_T *x = (const EC_T *)a->data + row * a->lane;
  EC_G *sums = out;
  for (int64_t j = 0; j < g->n; j++) {
    const EC_T *y = (const EC_T *)b->data + j * b->lane;
    EC_G part[PARTS] = {0};
    int64_t k = 0;
    for (; k + PARTS <= g->k; k += PARTS)
      for (int i = 0; i < PARTS; i++)
        part[i] += ec_times(EC_FN(get)(x[k + i]), EC_FN(get)(y[k + i]));
    for (int i = 0; k < g->k; k++, i++)
      part[i] += ec_times(EC_FN(get)(x[k]), EC_FN(get)(y[k]));
    for (int width = PARTS / 2; width; width /= 2)
      for (int i = 0; i < width; i++) part[i] += part[i + width];
    sums[j] = part[0];
  }
}

/* The sums of axpy, with the same bits, for contiguous b[j]: tiles of B are packed into the
 * first-level cache. A weight that the file has transposed is read where it is. */
EC_CLONES static void EC_FN(turned)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                                    int64_t row, void *out) {
  enum { COLS = 64, STEPS = 64 };
  _Alignas(EC_ALIGN) EC_G tile[STEPS][COLS];
  const EC_T *x = (const EC_T *)a->data + row * a->lane;
  EC_G *sums = out;
  for (int64_t j = 0; j < g->n; j += COLS) {
    EC_G s[COLS] = {0};
    ec_gemm_panel panel = {j, ec_min_i64(COLS, g->n - j), 0, STEPS};
    for (; panel.k0 < g->k; panel.k0 += STEPS) {
      panel.depth = ec_min_i64(STEPS, g->k - panel.k0);
      ec_gemm_loops_of[g->dtype].pack(b, &panel, COLS, tile);
      int64_t k = 0;
      for (const EC_T *from = x + panel.k0 * a->k; k + 4 <= panel.depth; k += 4, from += 4 * a->k) {
        const EC_G x0 = EC_FN(get)(from[0]), x1 = EC_FN(get)(from[a->k]);
        const EC_G x2 = EC_FN(get)(from[2 * a->k]), x3 = EC_FN(get)(from[3 * a->k]);
        for (int i = 0; i < COLS; i++)
          s[i] += (ec_times(x0, tile[k][i]) + ec_times(x1, tile[k + 1][i])) +
                  (ec_times(x2, tile[k + 2][i]) + ec_times(x3, tile[k + 3][i]));
      }
      for (; k < panel.depth; k++)
        for (int i = 0; i < COLS; i++)
          s[i] += ec_times(EC_FN(get)(x[(panel.k0 + k) * a->k]), tile[k][i]);
    }
    memcpy(sums + j, s, (size_t)panel.lanes * sizeof *s);
  }
}

/* Three nested loops: the reference of the fast path. */
static void EC_FN(reference)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                             const ec_gemm_out *out) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      const EC_T *x = (const EC_T *)a->data + i * a->lane;
      const EC_T *y = (const EC_T *)b->data + j * b->lane;
      EC_R sum = 0;
      for (int64_t k = 0; k < g->k; k++, x += a->k, y += b->k)
        sum += ec_times((EC_R)EC_LOAD(*x), (EC_R)EC_LOAD(*y));
      EC_G rounded = (EC_G)sum;
      ec_gemm_tile tile = {&rounded, 1, i, j, 1, 1};
      EC_FN(store)(out, &tile);
    }
}
