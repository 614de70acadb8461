/* Sums over the cells of a grid of bins, in any number of dimensions, each step rounded to the
 * dtype as in eager. */
#define EC_ROUND(x) EC_LOAD(EC_STORE(x))

/* Computes even edges. The second half counts from the end, so that the last edge is exact.
 * Products are fused, as in torch.linspace: an edge at 0 is the rounding error of the step. */
static void EC_FN(edges)(void *out, int64_t bins, double from, double to) {
  EC_T *edge = out;
  EC_C low = EC_ROUND((EC_C)from), high = EC_ROUND((EC_C)to);
  EC_C step = EC_ROUND(EC_ROUND(high - low) / (EC_C)bins);
  edge[0] = EC_STORE(low);
  for (int64_t i = 1; i <= bins; i++)
    edge[i] = i < (bins + 1) / 2
                  ? EC_STORE((EC_C)fma((double)step, (double)i, (double)low))
                  : EC_STORE((EC_C)fma(-(double)step, (double)(bins - i), (double)high));
}

/* Computes the extremes of every `step`th element; NaN if one is NaN. */
static void EC_FN(ends)(const void *data, int64_t n, int64_t step, double *from, double *to) {
  const EC_T *x = data;
  EC_C low = EC_LOAD(x[0]), high = low;
  for (int64_t i = 0; i < n; i++) {
    EC_C v = EC_LOAD(x[i * step]);
    low = v < low || v != v ? v : low;
    high = v > high || v != v ? v : high;
  }
  *from = (double)low;
  *to = (double)high;
}

/* Returns the bin of a value between the first and the last edge. The last bin is closed on the
 * right. Even edges determine nearly the bin; others use eager's search. */
static int64_t EC_FN(bin)(const EC_T *edge, int64_t bins, bool even, EC_C v) {
  int64_t low = 0, high = bins + 1;
  EC_C first = EC_LOAD(edge[0]), many = EC_ROUND((EC_C)bins), near = -1;
  if (even)
    near = EC_ROUND(EC_ROUND(EC_ROUND(v - first) * many) / EC_ROUND(EC_LOAD(edge[bins]) - first));
  if (near >= 0 && near <= many && near < (EC_C)0x1p62) {
    low = ec_max_i64(ec_min_i64((int64_t)near, bins) - 1, 0);
    high = ec_min_i64((int64_t)near + 2, high);
  }
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (EC_LOAD(edge[mid]) > v) high = mid;
    else low = mid + 1;
  }
  return ec_max_i64(0, ec_min_i64(low, bins) - 1);
}

static void EC_FN(fill)(const grid *g) {
  const EC_T *x = g->x, *weights = g->weights;
  EC_T *cells = g->cells;
  for (int64_t i = 0; i < g->rows; i++, x += g->dims) {
    int64_t at = 0, d = 0;
    for (; d < g->dims; d++) {
      const EC_T *edge = g->edges[d];
      EC_C v = EC_LOAD(x[d]);
      if (!(v >= EC_LOAD(edge[0]) && v <= EC_LOAD(edge[g->bins[d]]))) break;
      at = at * g->bins[d] + EC_FN(bin)(edge, g->bins[d], g->even, v);
    }
    if (d < g->dims) continue;
    cells[at] = EC_STORE(EC_LOAD(cells[at]) + (weights ? EC_LOAD(weights[i]) : 1));
  }
}

/* Divides the sums by their total and by the volumes of the cells. */
static void EC_FN(density)(const grid *g) {
  EC_T *cells = g->cells;
  EC_C all = 0;
  for (int64_t i = 0; i < g->count; i++) all += EC_LOAD(cells[i]);
  all = EC_ROUND(all);
  for (int64_t i = 0; i < g->count; i++) cells[i] = EC_STORE(EC_LOAD(cells[i]) / all);
  for (int64_t d = 0, inner = g->count; d < g->dims; d++) {
    const EC_T *edge = g->edges[d];
    inner /= g->bins[d];
    for (int64_t i = 0; i < g->count; i++) {
      int64_t at = i / inner % g->bins[d];
      EC_C width = EC_ROUND(EC_LOAD(edge[at + 1]) - EC_LOAD(edge[at]));
      cells[i] = EC_STORE(EC_LOAD(cells[i]) / width);
    }
  }
}
#undef EC_ROUND
