/* grid_sampler_2d and grid_sampler_3d. */
#include <inttypes.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/resize/resize.h"

enum { GRID_BLOCK = 64, GRID_TAPS = 16, NOWHERE = -1 };
enum { GRID_BILINEAR, GRID_NEAREST, GRID_BICUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

typedef struct sampler {
  ec_view in, out;
  int64_t mode, padding;
  bool align, planar;
  int taps;                     /* per axis */
  int64_t grid_step, grid_line; /* between coordinates, and between points of a line */
} sampler;

#define EC_TEMPLATE "kernels/resize/grid.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*sample_fn)(const sampler *s, int64_t n, const char *grid, const char *in, char *out);
static const sample_fn samples[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(sample)};

static ec_status read_modes(ec_call *c, sampler *s) {
  static const int taps[] = {2, 1, 4};
  s->mode = ec_arg_int(c, 2);
  s->padding = ec_arg_int(c, 3);
  s->align = ec_arg_bool(c, 4);
  if (s->mode < 0 || s->mode > (s->planar ? GRID_BICUBIC : GRID_NEAREST))
    return ec_call_fail(c, 2, "unknown mode %" PRId64 " for this number of dimensions", s->mode);
  if (s->padding < 0 || s->padding > PAD_REFLECTION)
    return ec_call_fail(c, 3, "unknown padding mode %" PRId64, s->padding);
  s->taps = taps[s->mode];
  return EC_OK;
}

static ec_status read_grid(ec_call *c, size_t axes, ec_resize *r) {
  const ec_tensor *grid = ec_arg_tensor(c, 1);
  char text[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  EC_TRY(ec_call_check_rank(c, 1, axes + 2, axes + 2));
  if (grid->sizes[0] != r->in.sizes[0] || grid->sizes[axes + 1] != (int64_t)axes)
    return ec_call_fail(c, 1, "shape %s, expected batch %" PRId64 " and %zu coordinates",
                        ec_shape_text(grid->sizes, grid->rank, text, sizeof text), r->in.sizes[0],
                        axes);
  for (size_t i = 0; i < axes; i++) r->axis[EC_RESIZE_RANK - axes + i].out = grid->sizes[1 + i];
  return EC_OK;
}

static ec_status sample_grid(ec_call *c, size_t axes) {
  ec_resize r = {0};
  sampler s = {.planar = axes == 2};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_resize_input(c, 5, axes, true, &r));
  EC_TRY(read_modes(c, &s));
  EC_TRY(read_grid(c, axes, &r));
  ec_view grid = ec_view_of(ec_arg_tensor(c, 1));
  EC_TRY(ec_resize_output(c, 5, &r));
  s.in = r.in;
  s.out = r.to;
  s.grid_step = grid.strides[axes + 1];
  s.grid_line = grid.strides[axes];
  int64_t item = (int64_t)ec_dtype_size(r.in.dtype), width = r.to.sizes[4];
  int64_t by_depth = s.planar ? 0 : grid.strides[1], by_height = grid.strides[axes - 1];
  for (int64_t n = 0; n < r.to.sizes[0]; n++)
    for (int64_t z = 0; z < r.to.sizes[2]; z++)
      for (int64_t y = 0; y < r.to.sizes[3]; y++)
        for (int64_t x = 0; x < width; x += GRID_BLOCK) {
          int64_t from = n * grid.strides[0] + z * by_depth + y * by_height + x * s.grid_line;
          int64_t to = n * r.to.strides[0] + z * r.to.strides[2] + y * r.to.strides[3];
          samples[r.in.dtype](&s, ec_min_i64(width - x, GRID_BLOCK), grid.data + from * item,
                              r.in.data + n * r.in.strides[0] * item,
                              r.to.data + (to + x * r.to.strides[4]) * item);
        }
  return EC_OK;
}

ec_status ec_op_grid_sampler_2d_out(ec_call *c) { return sample_grid(c, 2); }
ec_status ec_op_grid_sampler_3d_out(ec_call *c) { return sample_grid(c, 3); }
