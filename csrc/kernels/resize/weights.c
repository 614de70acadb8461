/* Tables of positions and weights for filters. */
#include <math.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/resize/resize.h"

/* Truncates to an integer in [0, most]. */
static int64_t clamp_index(double x, int64_t most) {
  return x >= (double)most ? most : x > 0 ? (int64_t)x : 0;
}

#define EC_TEMPLATE "kernels/resize/weights.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

/* Returns the number of entries per output. */
static int64_t width_of(const ec_axis *a, double scale, ec_filter filter, bool antialias) {
  static const int64_t taps[] = {[EC_LINEAR] = 2, [EC_CUBIC] = 4, [EC_LANCZOS] = 6};
  if (!antialias) return taps[filter];
  double reach = (double)(taps[filter] / 2) * (scale > 1 ? scale : 1);
  return reach < (double)a->in ? ec_min_i64(2 * (int64_t)ceil(reach) + 1, a->in) : a->in;
}

/* Converts weights of bytes to integers of 15 bits, one per position. */
static void make_integers(ec_axis *a) {
  double most = 0;
  for (int64_t o = 0; o < a->out; o++) {
    int64_t *at = a->at + o * a->width, n = 0;
    double *w = a->weights + o * a->width;
    for (int64_t j = 0; j < a->counts[o]; j++) { /* merges repeated border positions */
      if (n && at[j] == at[n - 1]) {
        w[n - 1] += w[j];
      } else {
        at[n] = at[j];
        w[n++] = w[j];
      }
    }
    a->counts[o] = n;
    for (int64_t j = 0; j < n; j++) most = w[j] > most ? w[j] : most;
  }
  for (a->shift = 0; a->shift < 22; a->shift++)
    if (0.5 + most * (double)(2 << a->shift) >= 0x1p15) break;
  for (int64_t o = 0; o < a->out; o++)
    for (int64_t j = 0; j < a->counts[o]; j++) {
      double *w = &a->weights[o * a->width + j];
      *w = trunc(*w * (double)(1 << a->shift) + (*w < 0 ? -0.5 : 0.5));
    }
}

ec_status ec_resize_weights(ec_call *c, ec_axis *a, ec_dtype dtype, bool align, ec_filter filter,
                            bool antialias) {
  bool wide = dtype == EC_FLOAT64 || dtype == EC_UINT8;
  double scale = wide ? scale_float64(a, align) : (double)scale_float32(a, align);
  size_t cells;
  a->width = width_of(a, scale, filter, antialias);
  if (!ec_mul_size((size_t)a->out, (size_t)a->width, &cells))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "too many weights");
  EC_TRY(ec_call_scratch(c, cells, sizeof *a->at, &a->at));
  EC_TRY(ec_call_scratch(c, cells, sizeof *a->weights, &a->weights));
  EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->counts, &a->counts));
  double reach = (double)(width_of(a, 1, filter, false) / 2);
  if (antialias && wide) wide_taps_float64(a, scale, reach, filter);
  else if (antialias) wide_taps_float32(a, (float)scale, (float)reach, filter);
  else if (wide) near_taps_float64(a, scale, align, filter == EC_CUBIC);
  else near_taps_float32(a, (float)scale, align, filter == EC_CUBIC);
  if (dtype == EC_UINT8) make_integers(a);
  return EC_OK;
}

ec_status ec_resize_transpose(ec_call *c, ec_axis *a) {
  ec_axis t = {.in = a->out, .out = a->in};
  size_t cells = 0;
  for (int64_t o = 0; o < a->out; o++) cells += (size_t)a->counts[o];
  EC_TRY(ec_call_scratch(c, cells, sizeof *t.at, &t.at));
  EC_TRY(ec_call_scratch(c, cells, sizeof *t.weights, &t.weights));
  EC_TRY(ec_call_scratch(c, (size_t)t.out, sizeof *t.counts, &t.counts));
  EC_TRY(ec_call_scratch(c, (size_t)t.out + 1, sizeof *t.starts, &t.starts));
  for (int64_t o = 0; o < a->out; o++)
    for (int64_t j = 0; j < a->counts[o]; j++) t.starts[a->at[ec_axis_entry(a, o) + j] + 1]++;
  for (int64_t i = 0; i < t.out; i++) t.starts[i + 1] += t.starts[i];
  for (int64_t o = 0; o < a->out; o++)
    for (int64_t j = 0; j < a->counts[o]; j++) {
      int64_t from = ec_axis_entry(a, o) + j, i = a->at[from];
      int64_t to = t.starts[i] + t.counts[i]++;
      t.at[to] = o;
      t.weights[to] = a->weights[from];
    }
  *a = t;
  return EC_OK;
}
