/* histogram and histogramdd: sums over a grid of bins. Each dimension has given edges or even ones
 * over a range; each row of points belongs to one cell. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/sort/order.h"

typedef struct grid {
  ec_dtype dtype;
  int64_t dims, rows, count;  /* numbers per point, points, cells */
  const void *x, *weights;    /* `dims` per row; NULL, or one per row */
  void **edges;               /* per dimension, bins + 1 */
  int64_t *bins;              /* per dimension, at least 1 */
  bool even;                  /* all bins of a dimension have the same width */
  void *cells;
} grid;

#define EC_TEMPLATE "kernels/sort/grid.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*edges_fn)(void *out, int64_t bins, double from, double to);
typedef void (*ends_fn)(const void *x, int64_t n, int64_t step, double *from, double *to);
typedef void (*grid_fn)(const grid *g);
static const edges_fn edges[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(edges)};
static const ends_fn ends[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(ends)};
static const grid_fn fills[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(fill)};
static const grid_fn densities[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(density)};

/* Reads the points in argument 0: all of its elements, or the rows of its last dimension. */
static ec_status read_points(ec_call *c, bool flat, grid *g) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  void *x;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  if (!flat) EC_TRY(ec_call_check_rank(c, 0, 2, EC_MAX_RANK));
  *g = (grid){.dtype = ec_tensor_dtype(self), .dims = flat ? 1 : self->sizes[self->rank - 1]};
  g->rows = g->dims ? self->numel / g->dims : 0;
  EC_TRY(ec_call_packed(c, self, g->dtype, &x));
  g->x = x;
  EC_TRY(ec_call_scratch(c, (size_t)g->dims, sizeof *g->edges, &g->edges));
  return ec_call_scratch(c, (size_t)g->dims, sizeof *g->bins, &g->bins);
}

/* Reads a weight per point; for rows, in their shape. */
static ec_status read_weights(ec_call *c, size_t i, bool flat, grid *g) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *weights = ec_arg_opt_tensor(c, i);
  void *w;
  if (!weights) return EC_OK;
  EC_TRY(ec_call_check_same_dtype(c, i, 0));
  bool fits = flat ? weights->numel == self->numel : weights->rank + 1 == self->rank;
  for (size_t d = 0; fits && !flat && d < weights->rank; d++)
    fits = weights->sizes[d] == self->sizes[d];
  char text[EC_SHAPE_TEXT];
  if (!fits)
    return ec_call_fail(c, i, "shape %s, expected a weight for each of %" PRId64 " points",
                        ec_shape_text(weights->sizes, weights->rank, text, sizeof text), g->rows);
  EC_TRY(ec_call_packed(c, weights, g->dtype, &w));
  g->weights = w;
  return EC_OK;
}

/* Finds the first and the last edge of a dimension: from argument 2, or from the points. */
static ec_status find_ends(ec_call *c, const grid *g, int64_t d, double *from, double *to) {
  const ec_value *range = c->args[2];
  *from = 0, *to = 1;
  if (range->kind != EC_KIND_NONE) {
    *from = range->as.doubles[2 * d];
    *to = range->as.doubles[2 * d + 1];
  } else if (g->rows) {
    const char *x = g->x;
    if (!ec_dtype_in(g->dtype, EC_SET_WIDE))
      return ec_call_fail(c, 2, "None, expected a range for %s", ec_dtype_name(g->dtype));
    ends[g->dtype](x + (size_t)d * ec_dtype_size(g->dtype), g->rows, g->dims, from, to);
  }
  if (!isfinite(*from) || !isfinite(*to))
    return ec_call_fail(c, 2, "the range [%g, %g] of dimension %" PRId64 " is not finite", *from,
                        *to, d);
  if (*from > *to)
    return ec_call_fail(c, 2, "the range [%g, %g] of dimension %" PRId64 " ends before it begins",
                        *from, *to, d);
  if (*from == *to) *from -= 0.5, *to += 0.5;
  return EC_OK;
}

/* Reads the number of bins of each dimension. */
static ec_status read_bins(ec_call *c, ec_ints bins, int64_t least, grid *g) {
  const ec_value *range = c->args[2];
  if ((int64_t)bins.n != g->dims)
    return ec_call_fail(c, 1, "%zu numbers, expected %" PRId64 ", one for each dimension", bins.n,
                        g->dims);
  if (range->kind != EC_KIND_NONE && range->count != 2 * bins.n)
    return ec_call_fail(c, 2, "%u numbers, expected %zu, two for each dimension",
                        (unsigned)range->count, 2 * bins.n);
  for (size_t d = 0; d < bins.n; d++) {
    g->bins[d] = bins.v[d];
    if (bins.v[d] < least || bins.v[d] == INT64_MAX)
      return ec_call_fail(c, 1, "%" PRId64 " bins, expected at least %" PRId64, bins.v[d], least);
  }
  return EC_OK;
}

/* Computes even edges over the range in argument 2. */
static ec_status make_edges(ec_call *c, grid *g) {
  g->even = true;
  for (int64_t d = 0; d < g->dims; d++) {
    double from, to;
    EC_TRY(find_ends(c, g, d, &from, &to));
    EC_TRY(ec_call_scratch(c, (size_t)g->bins[d] + 1, ec_dtype_size(g->dtype), &g->edges[d]));
    edges[g->dtype](g->edges[d], g->bins[d], from, to);
  }
  return EC_OK;
}

/* Copies the edges of argument 1, because an output may overlap them. */
static ec_status read_edges(ec_call *c, const ec_tensor *t, int64_t d, grid *g) {
  size_t item = ec_dtype_size(g->dtype);
  void *packed;
  if (ec_tensor_dtype(t) != g->dtype)
    return ec_call_fail(c, 1, "dtype %s, expected %s as in 'self'",
                        ec_dtype_name(ec_tensor_dtype(t)), ec_dtype_name(g->dtype));
  if (t->rank != 1 || t->numel < 2)
    return ec_call_fail(c, 1, "%u dimensions and %" PRId64 " elements, expected one of at least 2",
                        (unsigned)t->rank, t->numel);
  EC_TRY(ec_call_packed(c, t, g->dtype, &packed));
  EC_TRY(ec_call_scratch(c, (size_t)t->numel, item, &g->edges[d]));
  memcpy(g->edges[d], packed, (size_t)t->numel * item);
  g->bins[d] = t->numel - 1;
  return EC_OK;
}

/* Resizes an output to a dimension's edges. */
static ec_status shape_edges(ec_call *c, const grid *g, int64_t d, size_t o, ec_tensor *out) {
  int64_t n = g->bins[d] + 1;
  if (ec_tensor_dtype(out) != g->dtype)
    return ec_call_fail(c, o, "dtype %s, expected %s as in 'self'",
                        ec_dtype_name(ec_tensor_dtype(out)), ec_dtype_name(g->dtype));
  ec_status status = ec_tensor_resize(out, 1, &n, c->err);
  return status == EC_OK ? status
                         : ec_fail_in(c->err, status, "argument '%s'", c->op->args[o].name);
}

static void write_edges(const grid *g, int64_t d, ec_tensor *out) {
  memcpy(out->data, g->edges[d], (size_t)out->numel * ec_dtype_size(g->dtype));
}

/* Resizes the output argument `o` to the grid's sizes, which bounds the memory of `sum`. */
static ec_status shape_cells(ec_call *c, const grid *g, size_t o) {
  EC_TRY(ec_call_check_same_dtype(c, o, 0));
  if (g->dims > EC_MAX_RANK)
    return ec_call_fail(c, 0, "points of %" PRId64 " dimensions, expected at most %d", g->dims,
                        EC_MAX_RANK);
  return ec_call_resize(c, o, (size_t)g->dims, g->bins);
}

/* Sums into the output argument `o`; argument `density` precedes it. */
static ec_status sum_grid(ec_call *c, grid *g, size_t o) {
  ec_tensor *out = ec_arg_tensor(c, o), cells;
  EC_TRY(ec_tensor_init(&cells, g->dtype, (size_t)g->dims, g->bins, NULL, c->err));
  EC_TRY(ec_call_scratch(c, (size_t)cells.numel, ec_dtype_size(g->dtype), &cells.data));
  g->cells = cells.data;
  g->count = cells.numel;
  fills[g->dtype](g);
  if (ec_arg_bool(c, o - 1)) densities[g->dtype](g);
  ec_copy_cast(c, out, &cells);
  return EC_OK;
}

/* Sums all elements of argument 0 into argument `o`; the edges follow it. */
static ec_status run_histogram(ec_call *c, size_t o, bool even) {
  ec_tensor *out = ec_arg_tensor(c, o + 1);
  grid g;
  EC_TRY(read_points(c, true, &g));
  EC_TRY(read_weights(c, o - 2, true, &g));
  if (even) {
    int64_t bins = ec_arg_int(c, 1);
    EC_TRY(read_bins(c, (ec_ints){&bins, 1}, 1, &g));
  } else {
    EC_TRY(read_edges(c, ec_arg_tensor(c, 1), 0, &g));
  }
  EC_TRY(shape_cells(c, &g, o));
  EC_TRY(shape_edges(c, &g, 0, o + 1, out));
  if (even) EC_TRY(make_edges(c, &g));
  EC_TRY(sum_grid(c, &g, o));
  write_edges(&g, 0, out);
  return EC_OK;
}

ec_status ec_op_histogram_bin_ct_out(ec_call *c) { return run_histogram(c, 5, true); }
ec_status ec_op_histogram_bins_tensor_out(ec_call *c) { return run_histogram(c, 4, false); }

ec_status ec_op_histogramdd_bin_edges_out(ec_call *c) {
  ec_tensors outs = ec_arg_tensors(c, 5);
  ec_ints bins;
  grid g;
  EC_TRY(ec_arg_ints(c, 1, &bins));
  EC_TRY(read_points(c, false, &g));
  EC_TRY(read_bins(c, bins, 0, &g)); /* eager refuses 0 when it counts */
  if ((int64_t)outs.n != g.dims)
    return ec_call_fail(c, 5, "%zu tensors, expected %" PRId64, outs.n, g.dims);
  for (size_t d = 0; d < outs.n; d++)
    EC_TRY(shape_edges(c, &g, (int64_t)d, 5, ec_list_tensor(outs, d)));
  EC_TRY(make_edges(c, &g));
  for (size_t d = 0; d < outs.n; d++) write_edges(&g, (int64_t)d, ec_list_tensor(outs, d));
  return EC_OK;
}

ec_status ec_op_histogramdd_from_bin_cts_out(ec_call *c) {
  ec_ints bins;
  grid g;
  EC_TRY(ec_arg_ints(c, 1, &bins));
  EC_TRY(read_points(c, false, &g));
  EC_TRY(read_weights(c, 3, false, &g));
  EC_TRY(read_bins(c, bins, 1, &g));
  EC_TRY(shape_cells(c, &g, 5));
  EC_TRY(make_edges(c, &g));
  return sum_grid(c, &g, 5);
}

ec_status ec_op_histogramdd_from_bin_tensors_out(ec_call *c) {
  ec_tensors bins = ec_arg_tensors(c, 1);
  grid g;
  EC_TRY(read_points(c, false, &g));
  EC_TRY(read_weights(c, 2, false, &g));
  if ((int64_t)bins.n != g.dims)
    return ec_call_fail(c, 1, "%zu tensors, expected %" PRId64 ", one for each dimension", bins.n,
                        g.dims);
  for (size_t d = 0; d < bins.n; d++)
    EC_TRY(read_edges(c, ec_list_tensor(bins, d), (int64_t)d, &g));
  EC_TRY(shape_cells(c, &g, 4));
  return sum_grid(c, &g, 4);
}
