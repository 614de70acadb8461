/* Positions and weights, in eager's compute type, because its rounding is visible. */

/* Returns the number of input positions per output. */
static EC_T EC_FN(scale)(const ec_axis *a, bool align) {
  if (align) return a->out > 1 ? (EC_T)(a->in - 1) / (EC_T)(a->out - 1) : 0;
  return a->factor > 0 ? (EC_T)(1.0 / a->factor) : (EC_T)a->in / (EC_T)a->out;
}

/* Eager is compiled with fused products, which matters for cancellation. */
static EC_T EC_FN(fused)(EC_T a, EC_T b, EC_T c) {
  return (EC_T)fma((double)a, (double)b, (double)c);
}

static EC_T EC_FN(filtered)(EC_T x, ec_filter filter, bool antialias) {
  const EC_T a = antialias ? (EC_T)-0.5 : (EC_T)-0.75;
  x = x < 0 ? -x : x;
  if (filter == EC_LINEAR) return x < 1 ? 1 - x : 0;
  if (filter == EC_CUBIC && x < 1)
    return EC_FN(fused)(EC_FN(fused)(a + 2, x, -(a + 3)) * x, x, 1);
  if (filter == EC_CUBIC && x >= 2) return 0;
  if (filter == EC_CUBIC && antialias)
    return EC_FN(fused)(EC_FN(fused)(x - 5, x, 8), x, -4) * a;
  if (filter == EC_CUBIC)
    return EC_FN(fused)(EC_FN(fused)(EC_FN(fused)(a, x, -5 * a), x, 8 * a), x, -4 * a);
  if (!(x < 3)) return 0;
  const EC_T third = (EC_T)M_PI * x / 3, whole = (EC_T)M_PI * x;
  const double product = sin((double)whole) * sin((double)third);
  return x == 0 ? 1 : (EC_T)(product / (double)(whole * third));
}

/* Computes all positions within the reach of a filter stretched by the scale. Weights add up to
 * 1. An axis that keeps its size is copied, whatever its scale: a weight of 0 would make NaN of
 * infinity. */
static void EC_FN(wide_taps)(ec_axis *a, EC_T scale, EC_T reach, ec_filter filter) {
  const EC_T stretch = scale >= 1 ? 1 / scale : 1, support = scale >= 1 ? reach * scale : reach;
  const bool is_kept = a->in == a->out;
  for (int64_t o = 0; o < a->out; o++) {
    const EC_T center = (is_kept ? 1 : scale) * ((EC_T)o + (EC_T)0.5);
    int64_t first = is_kept ? o : clamp_index((double)(center - support + (EC_T)0.5), a->in);
    int64_t end = is_kept ? o + 1 : clamp_index((double)(center + support + (EC_T)0.5), a->in);
    int64_t n = ec_max_i64(0, ec_min_i64(end - first, a->width)), *at = a->at + o * a->width;
    a->counts[o] = n;
    double *w = a->weights + o * a->width;
    EC_T total = 0;
    for (int64_t j = 0; j < n; j++) {
      const EC_T at_j = ((EC_T)(j + first) - center + (EC_T)0.5) * stretch;
      const EC_T x = EC_FN(filtered)(at_j, filter, true);
      total += x;
      w[j] = (double)x;
      at[j] = first + j;
    }
    for (int64_t j = 0; j < n && total != 0; j++) w[j] = (double)((EC_T)w[j] / total);
  }
}

/* Computes the two or four neighbours, clamped to the border. */
static void EC_FN(near_taps)(ec_axis *a, EC_T scale, bool align, bool cubic) {
  for (int64_t o = 0; o < a->out; o++) {
    EC_T at = align ? scale * (EC_T)o : EC_FN(fused)(scale, (EC_T)o + (EC_T)0.5, (EC_T)-0.5);
    if (!cubic && !(at > 0)) at = 0;
    if (!cubic && a->in == a->out) at = (EC_T)o;
    const double whole = floor((double)at);
    const int64_t first = whole < 0 && cubic ? -1 : clamp_index(whole, a->in - 1);
    EC_T t = at - (EC_T)first;
    t = t > 1 ? 1 : t > 0 ? t : 0;
    int64_t *to = a->at + o * a->width;
    double *w = a->weights + o * a->width;
    a->counts[o] = a->width;
    for (int64_t j = 0; j < a->width; j++) {
      to[j] = ec_max_i64(0, ec_min_i64(first + j - (cubic ? 1 : 0), a->in - 1));
      const EC_T x = cubic ? t + (EC_T)(1 - j) : t - (EC_T)j;
      w[j] = cubic ? (double)EC_FN(filtered)(x, EC_CUBIC, false) : (double)(j ? t : 1 - t);
    }
  }
}
