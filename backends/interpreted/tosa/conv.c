/* Convolutions of floats: NHWC images and OHWI weights in the runtime's order of dimensions. */
#include "conv.h"

#include <string.h>

#include "../pack.h"

enum { MAX_DIMS = 3 };

/* A convolution of floats. Tensors are numbers of the program, images are NC and `dims` sizes. */
typedef struct conv {
  ect_graph *g;
  const ect_node *n;
  const ect_operand *x, *weight, *bias;
  ect_operand *result;
  uint32_t dims, dtype;
  int64_t image, filter, offset; /* offset: the bias, or none */
  int64_t pads[2 * MAX_DIMS];   /* before and after each dimension */
} conv;

/* ---- orders of dimensions -------------------------------------------------------------------- */

/* Adds a tensor whose sizes were computed here. */
static uint32_t add_tensor(const conv *k, uint32_t rank, const int64_t *sizes, int64_t *out) {
  *out = ECT_NO_VALUE;
  for (uint32_t d = 0; d < rank; d++)
    if (sizes[d] < 0 || sizes[d] > INT32_MAX)
      return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM,
                        "the padding or the channels do not fit to the sizes");
  *out = ets_add_tensor(k->g, k->dtype, rank, sizes);
  return EC_BACKEND_OK;
}

/* Copies elements of `width` bytes of a row-major array in the order of permuted dimensions. */
static void permute_bytes(const ect_operand *v, size_t width, const int64_t *order, uint8_t *to) {
  int64_t steps[ECT_MAX_RANK], index[ECT_MAX_RANK] = {0}, step = 1, from = 0, count = 1;
  for (uint32_t d = v->rank; d-- > 0; step *= v->sizes[d]) steps[d] = step;
  for (uint32_t d = 0; d < v->rank; d++) count *= v->sizes[d];
  for (int64_t i = 0; i < count; i++) {
    memcpy(to + (size_t)i * width, v->data + (size_t)from * width, width);
    for (uint32_t d = v->rank; d-- > 0;) {
      from += steps[order[d]];
      if (++index[d] < v->sizes[order[d]]) break;
      from -= steps[order[d]] * v->sizes[order[d]];
      index[d] = 0;
    }
  }
}

/* Adds a constant with permuted dimensions. */
static uint32_t permute_constant(const conv *k, const ect_operand *v, const int64_t *order,
                                 const int64_t *sizes, int64_t *out) {
  ect_tensor t = {.dtype = ets_scalar_type(v->dtype), .rank = v->rank};
  size_t bytes;
  memcpy(t.sizes, sizes, v->rank * sizeof *sizes);
  if (!ect_tensor_bytes(&t, &bytes) || bytes > v->data_size)
    return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM, "the weight has too few bytes");
  uint8_t *items = ect_add_owned(&k->g->program, &t, ECT_CONSTANT, out);
  if (!items) return ect_refuse(k->g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  if (bytes) permute_bytes(v, ec_backend_dtype_size(t.dtype), order, items);
  *out = ets_convert(k->g, *out, v->dtype, k->dtype);
  return EC_BACKEND_OK;
}

/* Finds an input with permuted dimensions. */
static uint32_t permuted_input(const conv *k, uint32_t index, const int64_t *order, int64_t *out) {
  const ect_operand *v;
  int64_t tensor, sizes[ECT_MAX_RANK];
  EC_BACKEND_TRY(ets_input(k->g, k->n, index, &v));
  for (uint32_t d = 0; d < v->rank; d++) sizes[d] = v->sizes[order[d]];
  if (v->data) return permute_constant(k, v, order, sizes, out);
  EC_BACKEND_TRY(ets_tensor(k->g, k->n, index, &tensor));
  return ets_permute(k->g, ets_convert(k->g, tensor, v->dtype, k->dtype), order, out);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint32_t open_conv(ect_graph *g, const ect_node *n, conv *out) {
  *out = (conv){.g = g, .n = n};
  EC_BACKEND_TRY(ets_input(g, n, 0, &out->x));
  EC_BACKEND_TRY(ets_input(g, n, 1, &out->weight));
  EC_BACKEND_TRY(ets_input(g, n, 2, &out->bias));
  EC_BACKEND_TRY(ets_result(g, n, &out->result));
  out->dims = n->kind == ETS_CONV3D ? 3 : 2;
  out->dtype = out->result->dtype;
  const uint32_t rank = out->dims + 2;
  if (out->x->rank != rank || out->weight->rank != rank || out->result->rank != rank ||
      out->bias->rank != 1 || !ets_is_float(out->dtype) || !ets_is_float(out->weight->dtype))
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "input, weight, bias or result have another rank or dtype");
  return EC_BACKEND_OK;
}

/* Finds the image, with its channels before the other dimensions. */
static uint32_t find_image(conv *k) {
  const int64_t first2[] = {0, 3, 1, 2}, first3[] = {0, 4, 1, 2, 3};
  return permuted_input(k, 0, k->dims == 3 ? first3 : first2, &k->image);
}

static uint32_t find_filter(conv *k) {
  const int64_t ohwi[] = {0, 3, 1, 2}, odhwi[] = {0, 4, 1, 2, 3}, hwcm[] = {2, 3, 0, 1};
  const int64_t transposed[] = {3, 0, 1, 2};
  if (k->n->kind == ETS_TRANSPOSE_CONV2D) return permuted_input(k, 1, transposed, &k->filter);
  if (k->n->kind != ETS_DEPTHWISE_CONV2D)
    return permuted_input(k, 1, k->dims == 3 ? odhwi : ohwi, &k->filter);
  const int64_t *s = k->weight->sizes;
  int64_t channels, permuted;
  if (__builtin_mul_overflow(s[2], s[3], &channels)) channels = 0;
  EC_BACKEND_TRY(permuted_input(k, 1, hwcm, &permuted));
  const int64_t sizes[] = {channels, 1, s[0], s[1]};
  EC_BACKEND_TRY(add_tensor(k, 4, sizes, &k->filter));
  const int64_t args[] = {permuted, ect_add_ints(&k->g->program, sizes, 4)};
  return ets_call_step(k->g, "aten::view_copy.out", args, 2, k->filter);
}

/* Finds the bias; a single element stands for all channels. */
static uint32_t find_bias(conv *k) {
  const int64_t channels = k->result->sizes[k->dims + 1];
  EC_BACKEND_TRY(ets_tensor(k->g, k->n, 2, &k->offset));
  k->offset = ets_convert(k->g, k->offset, k->bias->dtype, k->dtype);
  if (k->bias->sizes[0] == channels) return EC_BACKEND_OK;
  const int64_t args[] = {k->offset, ect_add_ints(&k->g->program, &channels, 1)};
  EC_BACKEND_TRY(add_tensor(k, 1, &channels, &k->offset));
  return ets_call_step(k->g, "aten::expand_copy.out", args, 2, k->offset);
}

/* Pads an NC... tensor of these sizes with zeros; negative numbers remove elements. */
static uint32_t pad(conv *k, int64_t *tensor, int64_t *sizes) {
  ect_program *p = &k->g->program;
  int64_t reversed[2 * MAX_DIMS];
  for (uint32_t d = 0; d < k->dims; d++) {
    const uint32_t from = 2 * (k->dims - 1 - d);
    reversed[2 * d] = k->pads[from];
    reversed[2 * d + 1] = k->pads[from + 1];
    sizes[d + 2] += k->pads[2 * d] + k->pads[2 * d + 1];
  }
  const int64_t args[] = {*tensor, ect_add_ints(p, reversed, 2 * k->dims), ect_add_int(p, 0)};
  EC_BACKEND_TRY(add_tensor(k, k->dims + 2, sizes, tensor));
  return ets_call_step(k->g, "aten::constant_pad_nd.out", args, 3, *tensor);
}

/* Reads `count` numbers of an attribute, each at least `least` and below 2 ** 24. */
static uint32_t read_numbers(const conv *k, size_t attribute, uint32_t count, int64_t least,
                             int64_t *out) {
  const bool wrong = ect_number_count(ets_attribute(k->g, k->n, attribute)) != count;
  for (uint32_t i = 0; i < count; i++) {
    out[i] = ets_attribute_at(k->g, k->n, attribute, i);
    if (wrong || out[i] < least || out[i] >= 1 << 24)
      return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM,
                        "a list of padding, stride or dilation has other numbers than expected");
  }
  return EC_BACKEND_OK;
}

/* Checks that the result has the sizes of the window's positions. */
static uint32_t check_sizes(const conv *k, const int64_t *strides, const int64_t *dilations) {
  const bool transposed = k->n->kind == ETS_TRANSPOSE_CONV2D;
  const uint32_t first = k->n->kind == ETS_DEPTHWISE_CONV2D ? 0 : 1; /* of the weight's window */
  for (uint32_t d = 0; d < k->dims; d++) {
    const int64_t size = k->x->sizes[d + 1], window = k->weight->sizes[d + first];
    const int64_t pads = k->pads[2 * d] + k->pads[2 * d + 1];
    const int64_t room = transposed ? 0 : size + pads - (window - 1) * dilations[d] - 1;
    const int64_t wanted = transposed ? (size - 1) * strides[d] + pads + window
                                      : room / strides[d] + 1;
    if (room < 0 || wanted != k->result->sizes[d + 1])
      return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM,
                        "the result has other sizes than pad, stride, dilation and kernel give");
  }
  return EC_BACKEND_OK;
}

/* Sizes of an NC... image of an N...C value. */
static void sizes_of(const conv *k, const ect_operand *v, int64_t *sizes) {
  sizes[0] = v->sizes[0];
  sizes[1] = v->sizes[k->dims + 1];
  memcpy(sizes + 2, v->sizes + 1, k->dims * sizeof *sizes);
}

/* Adds the convolution of image, filter and offset. */
static uint32_t convolve(conv *k, const int64_t *strides, const int64_t *before,
                         const int64_t *dilations, const int64_t *sizes, int64_t *out) {
  ect_program *p = &k->g->program;
  const bool depthwise = k->n->kind == ETS_DEPTHWISE_CONV2D;
  const int64_t zeros[MAX_DIMS] = {0};
  const int64_t args[] = {
      k->image, k->filter, k->offset, ect_add_ints(p, strides, k->dims),
      ect_add_ints(p, before, k->dims), ect_add_ints(p, dilations, k->dims),
      ect_add_bool(p, k->n->kind == ETS_TRANSPOSE_CONV2D), ect_add_ints(p, zeros, k->dims),
      ect_add_int(p, depthwise ? k->weight->sizes[2] : 1)};
  EC_BACKEND_TRY(add_tensor(k, k->dims + 2, sizes, out));
  return ets_call_step(k->g, "aten::convolution.out", args, 9, *out);
}

static uint32_t call_floats(ect_graph *g, const ect_node *n) {
  conv k;
  int64_t sizes[MAX_DIMS + 2], strides[MAX_DIMS], dilations[MAX_DIMS], before[MAX_DIMS];
  int64_t out;
  bool same = true;
  EC_BACKEND_TRY(open_conv(g, n, &k));
  EC_BACKEND_TRY(read_numbers(&k, 0, 2 * k.dims, 0, k.pads));
  EC_BACKEND_TRY(read_numbers(&k, 1, k.dims, 1, strides));
  EC_BACKEND_TRY(read_numbers(&k, 2, k.dims, 1, dilations));
  EC_BACKEND_TRY(check_sizes(&k, strides, dilations));
  EC_BACKEND_TRY(find_image(&k));
  EC_BACKEND_TRY(find_filter(&k));
  EC_BACKEND_TRY(find_bias(&k));
  for (uint32_t d = 0; d < k.dims; d++) {
    before[d] = k.pads[2 * d];
    same = same && k.pads[2 * d] == k.pads[2 * d + 1];
  }
  sizes_of(&k, k.x, sizes);
  if (!same) EC_BACKEND_TRY(pad(&k, &k.image, sizes));
  if (!same) memset(before, 0, sizeof before);
  sizes_of(&k, k.result, sizes);
  EC_BACKEND_TRY(convolve(&k, strides, before, dilations, sizes, &out));
  const int64_t last2[] = {0, 2, 3, 1}, last3[] = {0, 2, 3, 4, 1};
  const int64_t args[] = {out, ect_add_ints(&g->program, k.dims == 3 ? last3 : last2, k.dims + 2)};
  return ets_call_op(g, n, "aten::permute_copy.out", args, 2);
}

static uint32_t call_transposed_floats(ect_graph *g, const ect_node *n) {
  conv k;
  const int64_t zeros[MAX_DIMS] = {0}, ones[MAX_DIMS] = {1, 1, 1}, last[] = {0, 2, 3, 1};
  int64_t sizes[MAX_DIMS + 2], strides[MAX_DIMS], out, turned;
  EC_BACKEND_TRY(open_conv(g, n, &k));
  EC_BACKEND_TRY(read_numbers(&k, 0, 4, -(1 << 24), k.pads));
  EC_BACKEND_TRY(read_numbers(&k, 1, 2, 1, strides));
  EC_BACKEND_TRY(check_sizes(&k, strides, ones));
  EC_BACKEND_TRY(find_image(&k));
  EC_BACKEND_TRY(find_filter(&k));
  k.offset = ect_add_none(&g->program);
  sizes_of(&k, k.result, sizes);
  for (uint32_t d = 0; d < 2; d++) sizes[d + 2] -= k.pads[2 * d] + k.pads[2 * d + 1];
  EC_BACKEND_TRY(convolve(&k, strides, zeros, ones, sizes, &out));
  EC_BACKEND_TRY(pad(&k, &out, sizes));
  EC_BACKEND_TRY(ets_permute(g, out, last, &turned));
  EC_BACKEND_TRY(find_bias(&k));
  const int64_t args[] = {turned, k.offset};
  return ets_call_op(g, n, "aten::add.out", args, 2);
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Adds a call of backends/operators/tosa with five inputs and lists of numbers. */
static uint32_t call_integers(ect_graph *g, const ect_node *n, const char *op, size_t lists) {
  int64_t args[8];
  for (uint32_t i = 0; i < 5; i++) EC_BACKEND_TRY(ets_tensor(g, n, i, &args[i]));
  for (size_t i = 0; i < lists; i++) args[5 + i] = ets_list(g, n, i);
  return ets_call_op(g, n, op, args, 5 + lists);
}

uint32_t ets_call_conv(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  if (ets_is_float(x->dtype)) return call_floats(g, n);
  return call_integers(g, n,
                       n->kind == ETS_CONV3D   ? "tosa::conv3d.out"
                       : n->kind == ETS_CONV2D ? "tosa::conv2d.out"
                                             : "tosa::depthwise_conv2d.out",
                       3);
}

uint32_t ets_call_transpose_conv(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  if (ets_is_float(x->dtype)) return call_transposed_floats(g, n);
  return call_integers(g, n, "tosa::transpose_conv2d.out", 2);
}
