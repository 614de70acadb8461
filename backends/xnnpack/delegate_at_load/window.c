/* Convolutions, pooling and resizing, delegated at load. */
#include <math.h>

#include "delegate_at_load/delegation.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/weights.h"
#include "payload/schema.h"

/* ---- convolutions ---------------------------------------------------------------------------- */

/* That of a row is one with height 1. */
typedef struct convolution {
  const ec_backend_value *x, *w, *bias;
  ecx_weights codes; /* of the filter, if they are known; else its `codes` are NULL */
  int64_t height, width;
  const int64_t *strides; /* of the filter, in memory */
  int64_t steps[2];       /* likewise, of height and width */
  int64_t stride[2], padding[2], dilation[2], adjustment[2];
  int64_t groups, in, out; /* channels of a group */
  bool transposed, depthwise;
} convolution;

static bool is_between(const int64_t *pair, int64_t least) {
  return pair[0] >= least && pair[1] >= least && pair[0] <= INT16_MAX && pair[1] <= INT16_MAX;
}

/* Reads the filter's size and the lists: those of a row have one item. */
static const char *read_window(const ec_backend_kernel_call *call, convolution *k) {
  const ec_backend_value *out = ecx_arg_out(call);
  const size_t rank = k->x->tensor.rank;
  if ((rank != 4 && rank != 3) || k->w->tensor.rank != rank || out->tensor.rank != rank)
    return "its number of dimensions";
  if (!ecx_can_be_last(k->x) || !ecx_can_be_last(out)) return "a dynamic shape";
  if (!ecx_arg_ints(call, 3, 2, k->stride) || !ecx_arg_ints(call, 4, 2, k->padding) ||
      !ecx_arg_ints(call, 5, 2, k->dilation) || !ecx_arg_ints(call, 7, 2, k->adjustment))
    return "its parameters";
  k->width = k->w->tensor.sizes[rank - 1];
  k->height = rank == 4 ? k->w->tensor.sizes[2] : 1;
  if (rank == 3) {
    k->stride[0] = k->dilation[0] = 1;
    k->padding[0] = k->adjustment[0] = 0;
  }
  const bool is_valid = is_between(k->stride, 1) && is_between(k->padding, 0) &&
                        is_between(k->dilation, 1) && is_between(k->adjustment, 0);
  return is_valid && k->groups >= 1 ? NULL : "its parameters";
}

static const char *read_convolution(const ec_backend_kernel_call *call, convolution *k) {
  *k = (convolution){.x = ecx_arg_value(call, 0), .w = ecx_arg_value(call, 1),
                     .bias = ecx_arg_value(call, 2), .transposed = ecx_arg_bool(call, 6),
                     .groups = ecx_arg_int(call, 8)};
  const char *reason = read_window(call, k);
  if (reason) return reason;
  if (!ecx_is_constant(k->w) || (k->bias && !ecx_is_constant(k->bias)))
    return "its weight is computed";
  const int64_t first = k->w->tensor.sizes[0], second = k->w->tensor.sizes[1];
  if (first % k->groups) return "its groups";
  k->in = k->transposed ? first / k->groups : second;
  k->out = k->transposed ? second : first / k->groups;
  k->depthwise = !k->transposed && k->groups > 1 && k->in == 1;
  if (k->bias && ecx_elements(k->bias) != (size_t)(k->groups * k->out)) return "its bias";
  return k->x->tensor.sizes[1] == k->groups * k->in ? NULL : "its shape";
}

/* Copies a filter with channels along dimension `dim`. */
static uint32_t copy_filter(ecx_delegation *b, const convolution *k, const ecx_shape *shape,
                            const size_t dims[5], const int64_t strides[5], size_t dim,
                            const char *key) {
  if (!k->codes.codes) return ecx_copy_constant(b, k->w, shape, dims, strides, key);
  return ecx_copy_weights(b, &k->codes, shape, dims, strides, dim, shape->dims[dim], key);
}

/* Finds the integers of the filter, with scales of its outputs. */
static void find_codes(convolution *k) {
  const size_t rank = k->w->tensor.rank, axis = k->transposed ? 1 : 0;
  const bool are_codes = ecx_find_weights(k->w, &k->codes) &&
                     (k->codes.axis == axis || k->codes.axis == rank);
  if (!are_codes) k->codes.codes = NULL;
  k->strides = are_codes ? k->codes.strides : k->w->tensor.strides;
  k->steps[0] = rank == 4 ? k->strides[2] : 0;
  k->steps[1] = k->strides[rank - 1];
}

/* Copies the filter in XNNPACK's order: outputs, height, width, inputs of a group; of a depthwise
 * convolution: height, width, outputs. */
static uint32_t read_filter(ecx_delegation *b, convolution *k) {
  find_codes(k);
  const int64_t *s = k->strides;
  const size_t height = (size_t)k->height, width = (size_t)k->width;
  const size_t in = (size_t)k->in, out = (size_t)k->out, groups = (size_t)k->groups;
  const ecx_shape shape = {.rank = 4, .dims = {groups * out, height, width, in}};
  const ecx_shape thin = {.rank = 4, .dims = {1, height, width, groups * out}};
  if (k->depthwise)
    return copy_filter(b, k, &thin, (size_t[5]){1, 1, height, width, groups * out},
                       (int64_t[5]){0, 0, k->steps[0], k->steps[1], s[0]}, 3, "depthwise");
  if (k->transposed)
    return copy_filter(b, k, &shape, (size_t[5]){groups, out, height, width, in},
                       (int64_t[5]){(int64_t)in * s[0], s[1], k->steps[0], k->steps[1], s[0]}, 0,
                       "transposed");
  return copy_filter(b, k, &shape, (size_t[5]){1, groups * out, height, width, in},
                     (int64_t[5]){0, s[0], k->steps[0], k->steps[1], s[1]}, 0, "last");
}

static uint32_t read_bias(ecx_delegation *b, const convolution *k) {
  if (!k->bias) return ECX_NONE;
  const size_t count = ecx_elements(k->bias);
  const ecx_shape shape = {.rank = 1, .dims = {count}};
  return ecx_copy_constant(b, k->bias, &shape, (size_t[5]){1, 1, 1, 1, count},
                           (int64_t[5]){0, 0, 0, 0, 1}, "plain");
}

#define SET(field, value) ecx_draft_set(n, ECX_Conv_##field, (uint32_t)(value))

static void set_convolution(ecx_draft_node *n, const convolution *k) {
  SET(padding_top, k->padding[0]);
  SET(padding_bottom, k->padding[0]);
  SET(padding_left, k->padding[1]);
  SET(padding_right, k->padding[1]);
  SET(kernel_height, k->height);
  SET(kernel_width, k->width);
  SET(stride_height, k->stride[0]);
  SET(stride_width, k->stride[1]);
  SET(dilation_height, k->dilation[0]);
  SET(dilation_width, k->dilation[1]);
  SET(group_input_channels, k->in);
  SET(group_output_channels, k->out);
  SET(groups, k->groups);
  SET(adjustment_height, k->adjustment[0]);
  SET(adjustment_width, k->adjustment[1]);
}

#undef SET

const char *ecx_delegate_convolution(ecx_delegation *b, const ecx_operator *row,
                                     const ec_backend_kernel_call *call) {
  (void)row;
  convolution k;
  const char *reason = read_convolution(call, &k);
  if (reason || !b) return reason;
  const uint32_t in[3] = {ecx_read(b, k.x, ECX_FORM_LAST), read_filter(b, &k), read_bias(b, &k)};
  const uint8_t kind = k.transposed  ? ECX_KIND_ConvTranspose2d
                       : k.depthwise ? ECX_KIND_DepthwiseConv2d
                                     : ECX_KIND_Conv2d;
  const uint32_t out = ecx_write(b, ecx_arg_out(call), ECX_FORM_LAST);
  set_convolution(ecx_draft_add(b->draft, kind, in, 3, out), &k);
  return NULL;
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct pooling {
  int64_t window[2], stride[2], padding[2], dilation[2];
} pooling;

static const char *read_pooling(const ec_backend_kernel_call *call, const ec_backend_value *out,
                                pooling *p) {
  if (ecx_arg_value(call, 0)->tensor.rank != 4 || out->tensor.rank != 4)
    return "its number of dimensions";
  if (!ecx_arg_ints(call, 1, 2, p->window)) return "its window";
  if (!ecx_arg_ints(call, 2, 2, p->stride)) {
    p->stride[0] = p->window[0];
    p->stride[1] = p->window[1];
  }
  if (!ecx_arg_ints(call, 3, 2, p->padding) || !is_between(p->window, 1) ||
      !is_between(p->stride, 1) || !is_between(p->padding, 0))
    return "its window";
  p->dilation[0] = p->dilation[1] = 1;
  return p->window[0] * p->window[1] > 1 ? NULL : "its window";
}

#define SET(field, value) ecx_draft_set(n, ECX_Pooling_##field, (uint32_t)(value))

static void add_pooling(ecx_delegation *b, uint8_t kind, const ec_backend_kernel_call *call,
                        const ec_backend_value *out, const pooling *p) {
  const bool is_max = kind == ECX_KIND_MaxPooling2d;
  const uint32_t id = ecx_read(b, ecx_arg_value(call, 0), ECX_FORM_LAST);
  const uint32_t integers = is_max ? ecx_integers_of(b->draft, id) : ECX_NONE;
  const uint32_t in = integers == ECX_NONE ? id : integers;
  if (is_max && in == id) ecx_watch(b, in);
  const ecx_shape shape = ecx_shape_of(out, ECX_FORM_LAST);
  const uint32_t pooled = is_max ? ecx_result_like(b, in, &shape)
                                 : ecx_draft_result(b->draft, &shape);
  ecx_draft_node *n = ecx_draft_add(b->draft, kind, &in, 1, pooled);
  SET(padding_top, p->padding[0]);
  SET(padding_bottom, p->padding[0]);
  SET(padding_left, p->padding[1]);
  SET(padding_right, p->padding[1]);
  SET(pooling_height, p->window[0]);
  SET(pooling_width, p->window[1]);
  SET(stride_height, p->stride[0]);
  SET(stride_width, p->stride[1]);
  SET(dilation_height, p->dilation[0]);
  SET(dilation_width, p->dilation[1]);
  ecx_bind(b, out, ECX_FORM_LAST, integers == ECX_NONE ? pooled : ecx_dequantize(b, pooled));
}

#undef SET

const char *ecx_delegate_max_pooling(ecx_delegation *b, const ecx_operator *row,
                                     const ec_backend_kernel_call *call) {
  const ec_backend_value *out = ecx_arg_value(call, 6);
  pooling p;
  const char *reason = read_pooling(call, out, &p);
  if (reason) return reason;
  if (!ecx_arg_ints(call, 4, 2, p.dilation) || !is_between(p.dilation, 1)) return "its dilation";
  if (ecx_arg_bool(call, 5)) return "ceil_mode";
  if (!ecx_arg_out(call)->is_unread) return "its indices are read";
  if (b) add_pooling(b, row->kind, call, out, &p);
  return NULL;
}

const char *ecx_delegate_average_pooling(ecx_delegation *b, const ecx_operator *row,
                                         const ec_backend_kernel_call *call) {
  pooling p;
  const char *reason = read_pooling(call, ecx_arg_out(call), &p);
  if (reason) return reason;
  if (ecx_arg_bool(call, 4) || !ecx_arg_is_none(call, 6)) return "ceil_mode or divisor_override";
  if ((p.padding[0] || p.padding[1]) && ecx_arg_bool(call, 5)) return "count_include_pad";
  if (b) add_pooling(b, row->kind, call, ecx_arg_out(call), &p);
  return NULL;
}

/* Adds a mean over height and width. The result has them as ones, or not at all. */
static const char *add_global_pooling(ecx_delegation *b, const ec_backend_kernel_call *call) {
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  const int64_t sizes[4] = {v->tensor.sizes[0], v->tensor.sizes[1], 1, 1};
  const ecx_shape shape = {.rank = 4, .dims = {(size_t)sizes[0], 1, 1, (size_t)sizes[1]}};
  if (!ecx_has_shape(out, 4, sizes) && !ecx_has_shape(out, 2, sizes)) return "its shape";
  if (!b) return NULL;
  const uint32_t in = ecx_read(b, v, ECX_FORM_LAST);
  const uint32_t id = ecx_draft_result(b->draft, &shape);
  ecx_draft_set(ecx_draft_add(b->draft, ECX_KIND_GlobalAvgPooling2d, &in, 1, id), ECX_Unary_flags,
                XNN_FLAG_KEEP_DIMS);
  if (out->tensor.rank == 4) {
    ecx_bind(b, out, ECX_FORM_LAST, id);
    return NULL;
  }
  const ecx_shape flat = ecx_shape_of(out, ECX_FORM_PLAIN);
  ecx_bind(b, out, ECX_FORM_PLAIN, ecx_reshape(b, id, &flat, v->is_dynamic ? 0 : ECX_NONE));
  return NULL;
}

const char *ecx_delegate_adaptive_pooling(ecx_delegation *b, const ecx_operator *row,
                                          const ec_backend_kernel_call *call) {
  (void)row;
  int64_t size[2];
  if (ecx_arg_value(call, 0)->tensor.rank != 4 || !ecx_arg_ints(call, 1, 2, size) ||
      size[0] != 1 || size[1] != 1)
    return "its size";
  return add_global_pooling(b, call);
}

const char *ecx_delegate_mean(ecx_delegation *b, const ecx_operator *row,
                              const ec_backend_kernel_call *call) {
  (void)row;
  int64_t dims[2];
  if (ecx_arg_value(call, 0)->tensor.rank != 4 || call->args[1].as.list.count != 2 ||
      !ecx_arg_ints(call, 1, 2, dims))
    return "its dimensions";
  for (size_t d = 0; d < 2; d++) dims[d] += dims[d] < 0 ? 4 : 0;
  if (dims[0] + dims[1] != 5 || (dims[0] != 2 && dims[0] != 3)) return "its dimensions";
  return add_global_pooling(b, call);
}

/* ---- resizing -------------------------------------------------------------------------------- */

/* True if a given scale agrees with the sizes. */
static bool is_scale(const ec_backend_arg *arg, int64_t from, int64_t to) {
  return arg->kind == EC_BACKEND_NONE ||
         (arg->kind == EC_BACKEND_DOUBLE && arg->as.d * (double)from == (double)to);
}

static bool has_scales(const ec_backend_kernel_call *call, const int64_t *from,
                       const int64_t *to) {
  if (call->count == 6) /* upsample_bilinear2d.out */
    return is_scale(&call->args[3], from[0], to[0]) && is_scale(&call->args[4], from[1], to[1]);
  const ec_backend_arg *list = &call->args[3];
  return list->kind == EC_BACKEND_NONE ||
         (list->as.list.count == 2 && is_scale(&list->as.list.items[0], from[0], to[0]) &&
          is_scale(&list->as.list.items[1], from[1], to[1]));
}

const char *ecx_delegate_upsample(ecx_delegation *b, const ecx_operator *row,
                                  const ec_backend_kernel_call *call) {
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  const bool corners = ecx_arg_bool(call, 2);
  if (v->tensor.rank != 4 || out->tensor.rank != 4) return "its number of dimensions";
  if (v->is_dynamic) return "a dynamic shape";
  const int64_t sizes[4] = {v->tensor.sizes[0], v->tensor.sizes[1], out->tensor.sizes[2],
                            out->tensor.sizes[3]};
  if (!ecx_has_shape(out, 4, sizes) || !has_scales(call, v->tensor.sizes + 2, sizes + 2))
    return "its scales";
  if (!b) return NULL;
  const uint32_t in = ecx_read(b, v, ECX_FORM_LAST);
  ecx_draft_node *n = ecx_draft_add(b->draft, row->kind, &in, 1,
                                    ecx_write(b, out, ECX_FORM_LAST));
  ecx_draft_set(n, ECX_Resize_height, (uint32_t)sizes[2]);
  ecx_draft_set(n, ECX_Resize_width, (uint32_t)sizes[3]);
  ecx_draft_set(n, ECX_Resize_flags, corners ? XNN_FLAG_ALIGN_CORNERS : 0);
  return NULL;
}
