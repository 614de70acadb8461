/* Windows over the last dimensions: convolutions and pools, paddings, resampling. */
#include <math.h>
#include <string.h>

#include "special.h"

enum { MAX_DIMS = 3, MAX_EXTENT = 1 << 24 };

typedef struct window {
  size_t dims;
  ect_tensor x;
  int64_t input; /* x, padded where ATen pads both sides alike only */
  int64_t kernel[MAX_DIMS], strides[MAX_DIMS], dilations[MAX_DIMS];
  int64_t begin[MAX_DIMS], end[MAX_DIMS]; /* padding */
} window;

/* Reads ints, one for each spatial dimension; `otherwise` without the argument. */
static uint32_t spatial(ecm_node *n, const char *name, int64_t otherwise, size_t dims,
                        int64_t *out) {
  size_t count = 0;
  EC_BACKEND_TRY(ecm_numbers(n, name, out, dims, &count));
  if (count && count != dims) return ecm_refuse(n, "a window's list has another rank than x");
  for (size_t i = count; i < dims; i++) out[i] = otherwise;
  for (size_t i = 0; i < dims; i++)
    if (out[i] < 0 || out[i] > MAX_EXTENT) return ecm_refuse(n, "a window is too large");
  return EC_BACKEND_OK;
}

static uint32_t find_rank(ecm_node *n, window *w) {
  EC_BACKEND_TRY(ecm_typed(n, "x", &w->input, &w->x));
  if (w->x.rank < 3 || w->x.rank > 5) return ecm_refuse(n, "x does not have 3 to 5 dimensions");
  w->dims = w->x.rank - 2;
  return EC_BACKEND_OK;
}

/* Finds the padding that makes the result ceil(x / stride). */
static uint32_t pad_same(ecm_node *n, window *w, bool is_lower) {
  for (size_t d = 0; d < w->dims; d++) {
    const int64_t in = w->x.sizes[d + 2], s = w->strides[d];
    if (s <= 0 || n->unknown) return ecm_refuse(n, "padding 'same' of unknown shapes");
    const int64_t span = (w->kernel[d] - 1) * w->dilations[d] + 1;
    const int64_t total = ((in + s - 1) / s - 1) * s + span - in;
    const int64_t half = total > 0 ? total / 2 : 0, rest = total > 0 ? total - half : 0;
    w->begin[d] = is_lower ? rest : half;
    w->end[d] = is_lower ? half : rest;
  }
  return EC_BACKEND_OK;
}

static uint32_t read_padding(ecm_node *n, window *w) {
  int64_t pads[2 * MAX_DIMS] = {0};
  size_t count = 0;
  if (ecm_text_is(n, "pad_type", "same", false)) return pad_same(n, w, false);
  if (ecm_text_is(n, "pad_type", "same_lower", false)) return pad_same(n, w, true);
  if (ecm_text_is(n, "pad_type", "custom", false))
    EC_BACKEND_TRY(ecm_numbers(n, "pad", pads, 2 * w->dims, &count));
  else if (!ecm_text_is(n, "pad_type", "valid", true))
    return ecm_refuse(n, "pad_type is none of valid, custom, same and same_lower");
  if (count && count != 2 * w->dims) return ecm_refuse(n, "pad has another rank than x");
  for (size_t d = 0; d < w->dims; d++) {
    w->begin[d] = pads[2 * d];
    w->end[d] = pads[2 * d + 1];
    if (pads[2 * d] < 0 || pads[2 * d + 1] < 0) return ecm_refuse(n, "padding is negative");
  }
  return EC_BACKEND_OK;
}

static bool is_symmetric(const window *w) {
  for (size_t d = 0; d < w->dims; d++)
    if (w->begin[d] != w->end[d]) return false;
  return true;
}

/* Pads x by `value`, so that the window itself needs no padding. */
static uint32_t pad_input(ecm_node *n, window *w, double value) {
  ect_program *p = &n->g->program;
  int64_t pads[2 * MAX_DIMS];
  ect_tensor t = w->x;
  for (size_t d = 0; d < w->dims; d++) {
    pads[2 * (w->dims - 1 - d)] = w->begin[d];
    pads[2 * (w->dims - 1 - d) + 1] = w->end[d];
    t.sizes[d + 2] += w->begin[d] + w->end[d];
    w->begin[d] = w->end[d] = 0;
  }
  const int64_t args[] = {w->input, ect_add_ints(p, pads, 2 * w->dims), ect_add_double(p, value)};
  w->x = t;
  return ecm_step(n, "aten::constant_pad_nd.out", args, 3, &t, &w->input);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static uint32_t open_convolution(ecm_node *n, window *w, int64_t *args) {
  ect_program *p = &n->g->program;
  ect_tensor weight;
  const ect_operand *bias;
  EC_BACKEND_TRY(find_rank(n, w));
  EC_BACKEND_TRY(ecm_typed(n, "weight", &args[1], &weight));
  if (weight.rank != w->x.rank) return ecm_refuse(n, "weight has another rank than x");
  for (size_t d = 0; d < w->dims; d++) w->kernel[d] = weight.sizes[d + 2];
  EC_BACKEND_TRY(ecm_argument(n, "bias", &bias));
  args[2] = ect_add_none(p);
  if (bias) EC_BACKEND_TRY(ecm_use(n, bias, &args[2]));
  EC_BACKEND_TRY(spatial(n, "strides", 1, w->dims, w->strides));
  EC_BACKEND_TRY(spatial(n, "dilations", 1, w->dims, w->dilations));
  return read_padding(n, w);
}

static uint32_t finish_convolution(ecm_node *n, const window *w, int64_t *args, bool transposed,
                                   const int64_t *output_padding, const int64_t *out,
                                   bool is_shown) {
  ect_program *p = &n->g->program;
  double groups = 1;
  EC_BACKEND_TRY(ecm_number(n, "groups", 1, &groups));
  args[0] = w->input;
  args[3] = ect_add_ints(p, w->strides, w->dims);
  args[4] = ect_add_ints(p, w->begin, w->dims);
  args[5] = ect_add_ints(p, w->dilations, w->dims);
  args[6] = ect_add_bool(p, transposed);
  args[7] = ect_add_ints(p, output_padding, w->dims);
  args[8] = ect_add_int(p, ecm_to_int(groups));
  return ecm_call_op(n, "aten::convolution.out", args, 9, out, 1, is_shown);
}

uint32_t ecm_call_conv(ecm_node *n) {
  window w = {0};
  int64_t args[9];
  static const int64_t none[MAX_DIMS] = {0};
  EC_BACKEND_TRY(open_convolution(n, &w, args));
  if (!is_symmetric(&w)) EC_BACKEND_TRY(pad_input(n, &w, 0));
  return finish_convolution(n, &w, args, false, none, &n->result, true);
}

/* Cuts the result of a transposed convolution without padding. */
static uint32_t cut(ecm_node *n, const window *w, const ect_tensor *whole, int64_t from) {
  ect_program *p = &n->g->program;
  ect_tensor t = *whole;
  for (size_t d = 0; d < w->dims; d++) {
    const int64_t size = n->type.sizes[d + 2];
    const int64_t args[] = {from, ect_add_int(p, (int64_t)d + 2), ect_add_int(p, w->begin[d]),
                            ect_add_int(p, w->begin[d] + size), ect_add_int(p, 1)};
    t.sizes[d + 2] = size;
    if (d + 1 == w->dims) return ecm_finish(n, "aten::slice_copy.Tensor_out", args, 5);
    EC_BACKEND_TRY(ecm_step(n, "aten::slice_copy.Tensor_out", args, 5, &t, &from));
  }
  return EC_BACKEND_OK;
}

uint32_t ecm_call_conv_transpose(ecm_node *n) {
  window w = {0};
  int64_t args[9], more[MAX_DIMS] = {0};
  EC_BACKEND_TRY(open_convolution(n, &w, args));
  if (n->unknown || n->type.rank != w.x.rank)
    return ecm_refuse(n, "the shape of the result is unknown");
  if (ecm_text_is(n, "pad_type", "same", false) || ecm_text_is(n, "pad_type", "same_lower", false))
    return ecm_refuse(n, "pad_type is neither valid nor custom");
  const bool symmetric = is_symmetric(&w);
  ect_tensor whole = n->type;
  for (size_t d = 0; d < w.dims; d++) {
    const int64_t span = (w.kernel[d] - 1) * w.dilations[d] + 1;
    const int64_t full = (w.x.sizes[d + 2] - 1) * w.strides[d] + span;
    more[d] = n->type.sizes[d + 2] - (full - w.begin[d] - w.end[d]);
    if (more[d] < 0 || more[d] > w.strides[d]) return ecm_refuse(n, "output_shape is too far off");
    whole.sizes[d + 2] = full + more[d];
  }
  if (symmetric) return finish_convolution(n, &w, args, true, more, &n->result, true);
  window bare = w;
  memset(bare.begin, 0, sizeof bare.begin);
  const int64_t out = ecm_add_like(n, &whole, whole.dtype);
  EC_BACKEND_TRY(finish_convolution(n, &bare, args, true, more, &out, false));
  return cut(n, &w, &whole, out);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static uint32_t open_pool(ecm_node *n, window *w, double filler, bool *ceil_mode) {
  double number = 0;
  bool fits = true;
  EC_BACKEND_TRY(find_rank(n, w));
  EC_BACKEND_TRY(spatial(n, "kernel_sizes", 1, w->dims, w->kernel));
  EC_BACKEND_TRY(spatial(n, "strides", 1, w->dims, w->strides));
  for (size_t d = 0; d < w->dims; d++) w->dilations[d] = 1;
  EC_BACKEND_TRY(read_padding(n, w));
  EC_BACKEND_TRY(ecm_number(n, "ceil_mode", 0, &number));
  *ceil_mode = number != 0;
  for (size_t d = 0; d < w->dims; d++) fits &= 2 * w->begin[d] <= w->kernel[d];
  if (is_symmetric(w) && fits) return EC_BACKEND_OK;
  if (isnan(filler)) return ecm_refuse(n, "padding that is not symmetric, left out of averages");
  return pad_input(n, w, filler);
}

/* Shows x of one spatial dimension as one of two. */
static uint32_t as_plane(ecm_node *n, window *w, ect_tensor *out) {
  ect_program *p = &n->g->program;
  ect_tensor t = w->x;
  *out = n->type;
  if (w->dims != 1) return EC_BACKEND_OK;
  t.rank = out->rank = 4;
  t.sizes[3] = t.sizes[2];
  out->sizes[3] = out->sizes[2];
  t.sizes[2] = out->sizes[2] = 1;
  w->kernel[1] = w->kernel[0];
  w->strides[1] = w->strides[0];
  w->begin[1] = w->begin[0];
  w->kernel[0] = w->strides[0] = 1;
  w->begin[0] = 0;
  const int64_t args[] = {w->input, ect_add_int(p, 2)};
  return ecm_step(n, "aten::unsqueeze_copy.out", args, 2, &t, &w->input);
}

uint32_t ecm_call_max_pool(ecm_node *n) {
  ect_program *p = &n->g->program;
  window w = {0};
  ect_tensor out;
  bool ceil_mode = false;
  EC_BACKEND_TRY(open_pool(n, &w, -(double)INFINITY, &ceil_mode));
  EC_BACKEND_TRY(as_plane(n, &w, &out));
  const size_t dims = w.dims == 1 ? 2 : w.dims;
  const int64_t args[] = {w.input, ect_add_ints(p, w.kernel, dims),
                          ect_add_ints(p, w.strides, dims), ect_add_ints(p, w.begin, dims),
                          ect_add_int(p, 1), ect_add_bool(p, ceil_mode)};
  const char *op = dims == 2 ? "aten::max_pool2d_with_indices.out"
                             : "aten::max_pool3d_with_indices.out";
  const int64_t plane = w.dims == 1 ? ecm_add_like(n, &out, out.dtype) : n->result;
  const int64_t outs[] = {plane, ecm_add_like(n, &out, EC_DTYPE_INT64)};
  EC_BACKEND_TRY(ecm_call_op(n, op, args, 6, outs, 2, w.dims != 1));
  if (w.dims != 1) return EC_BACKEND_OK;
  const int64_t squeeze[] = {plane, ect_add_int(p, 2)};
  return ecm_finish(n, "aten::squeeze_copy.dim_out", squeeze, 2);
}

uint32_t ecm_call_avg_pool(ecm_node *n) {
  static const char *const ops[] = {"aten::avg_pool1d.out", "aten::avg_pool2d.out",
                                    "aten::avg_pool3d.out"};
  ect_program *p = &n->g->program;
  window w = {0};
  bool ceil_mode = false;
  double exclude = 0;
  EC_BACKEND_TRY(ecm_number(n, "exclude_padding_from_average", 0, &exclude));
  EC_BACKEND_TRY(open_pool(n, &w, exclude != 0 ? (double)NAN : 0, &ceil_mode));
  const int64_t args[] = {w.input, ect_add_ints(p, w.kernel, w.dims),
                          ect_add_ints(p, w.strides, w.dims), ect_add_ints(p, w.begin, w.dims),
                          ect_add_bool(p, ceil_mode), ect_add_bool(p, exclude == 0)};
  return ecm_finish(n, ops[w.dims - 1], args, 6);
}

/* ---- padding --------------------------------------------------------------------------------- */

/* Views x with at most two dimensions before the `padded` ones, and at least one. */
static uint32_t pad_edges(ecm_node *n, const char *const ops[MAX_DIMS], const ect_tensor *x,
                          int64_t input, const int64_t *pads, size_t padded) {
  ect_program *p = &n->g->program;
  ect_tensor t = {.dtype = x->dtype, .rank = (uint32_t)padded + 1, .sizes = {1}}, out;
  if (padded > MAX_DIMS) return ecm_refuse(n, "more than 3 padded dimensions");
  if (n->unknown) return ecm_refuse(n, "dimensions of unknown size");
  const size_t before = x->rank - padded;
  for (size_t d = 0; d < before; d++)
    if (__builtin_mul_overflow(t.sizes[0], x->sizes[d], &t.sizes[0]))
      return ecm_refuse(n, "x is too large");
  out = t;
  for (size_t d = 0; d < padded; d++) {
    t.sizes[d + 1] = x->sizes[before + d];
    out.sizes[d + 1] = n->type.sizes[before + d];
  }
  const int64_t view[] = {input, ect_add_ints(p, t.sizes, t.rank)};
  EC_BACKEND_TRY(ecm_step(n, "aten::view_copy.out", view, 2, &t, &input));
  int64_t args[] = {input, ect_add_ints(p, pads, 2 * padded)};
  EC_BACKEND_TRY(ecm_step(n, ops[padded - 1], args, 2, &out, &args[0]));
  args[1] = ect_add_ints(p, n->type.sizes, n->type.rank);
  return ecm_finish(n, "aten::view_copy.out", args, 2);
}

uint32_t ecm_call_pad(ecm_node *n) {
  static const char *const reflect[] = {"aten::reflection_pad1d.out", "aten::reflection_pad2d.out",
                                        "aten::reflection_pad3d.out"};
  static const char *const replicate[] = {
      "aten::replication_pad1d.out", "aten::replication_pad2d.out", "aten::replication_pad3d.out"};
  ect_program *p = &n->g->program;
  int64_t input = 0, pad[2 * ECT_MAX_RANK], pads[2 * ECT_MAX_RANK];
  ect_tensor x;
  size_t count = 0, padded = 1;
  double value = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &input, &x));
  EC_BACKEND_TRY(ecm_numbers(n, "pad", pad, 2 * ECT_MAX_RANK, &count));
  if (count % 2 || count / 2 > x.rank || !count || n->type.rank != x.rank)
    return ecm_refuse(n, "pad has another rank than x");
  for (size_t d = 0; d < count / 2; d++) {
    pads[2 * d] = pad[count - 2 - 2 * d];
    pads[2 * d + 1] = pad[count - 1 - 2 * d];
    if (pads[2 * d] || pads[2 * d + 1]) padded = d + 1;
  }
  if (ecm_text_is(n, "mode", "reflect", false))
    return pad_edges(n, reflect, &x, input, pads, padded);
  if (ecm_text_is(n, "mode", "replicate", false))
    return pad_edges(n, replicate, &x, input, pads, padded);
  if (!ecm_text_is(n, "mode", "constant", true))
    return ecm_refuse(n, "mode is none of constant, reflect and replicate");
  EC_BACKEND_TRY(ecm_number(n, "constant_val", 0, &value));
  const int64_t args[] = {input, ect_add_ints(p, pads, count), ect_add_double(p, value)};
  return ecm_finish(n, "aten::constant_pad_nd.out", args, 3);
}

/* ---- resampling ------------------------------------------------------------------------------ */

static uint32_t resample(ecm_node *n, const char *op, const bool *align_corners) {
  ect_program *p = &n->g->program;
  int64_t args[3];
  const ect_tensor *out = &n->type;
  EC_BACKEND_TRY(ecm_input(n, "x", &args[0]));
  if (out->rank != 4 || n->unknown)
    return ecm_refuse(n, "the result does not have 4 dimensions of known sizes");
  args[1] = ect_add_ints(p, out->sizes + 2, 2);
  if (align_corners) args[2] = ect_add_bool(p, *align_corners);
  return ecm_finish(n, op, args, align_corners ? 3 : 2);
}

uint32_t ecm_call_nearest(ecm_node *n) { return resample(n, "aten::upsample_nearest2d.out", NULL); }

uint32_t ecm_call_bilinear(ecm_node *n) {
  double corners = 1, centers = 0;
  EC_BACKEND_TRY(ecm_number(n, "align_corners", 1, &corners));
  EC_BACKEND_TRY(ecm_number(n, "half_pixel_centers", corners == 0, &centers));
  if (corners == 0 && centers == 0) return ecm_refuse(n, "half_pixel_centers is false");
  const bool align_corners = corners != 0;
  return resample(n, "aten::upsample_bilinear2d.out", &align_corners);
}

uint32_t ecm_call_resize_bilinear(ecm_node *n) {
  const bool align_corners = !ecm_text_is(n, "sampling_mode", "UNALIGN_CORNERS", false);
  if (align_corners && !ecm_text_is(n, "sampling_mode", "STRICT_ALIGN_CORNERS", false) &&
      !ecm_text_is(n, "sampling_mode", "ALIGN_CORNERS", false))
    return ecm_refuse(n, "sampling_mode is none of (STRICT_)ALIGN_CORNERS and UNALIGN_CORNERS");
  return resample(n, "aten::upsample_bilinear2d.out", &align_corners);
}
