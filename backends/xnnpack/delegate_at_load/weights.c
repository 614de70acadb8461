/* Weights that a program dequantises when it is loaded, as integers.
 *
 * A layer is made with them. If its result is not quantised, or its input is not, they become
 * floats in the end, with the numbers that the kernels compute. */
#include "delegate_at_load/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "delegate_at_load/forms.h"
#include "nodes/kinds.h"
#include "payload/schema.h"

enum { INT8 = 1, INT32 = 3, INT64 = 4, FLOAT32 = 6, FLOAT64 = 7, KEY = 128, MAX_MOVES = 4 };

/* ---- where they come from -------------------------------------------------------------------- */

static bool is_call_of(const ec_backend_kernel_call *call, const char *op) {
  return call && strcmp(call->op, op) == 0;
}

static size_t wrapped(int64_t dim, size_t rank) {
  return (size_t)(dim < 0 ? dim + (int64_t)rank : dim);
}

/* Applies a permutation of dimensions to `at`, the dimension of the codes for each of the floats.
 * Returns false for another operator. */
static bool undo_move(const ec_backend_kernel_call *call, size_t rank, size_t *at) {
  size_t from[XNN_MAX_TENSOR_DIMS], moved[XNN_MAX_TENSOR_DIMS];
  int64_t dims[XNN_MAX_TENSOR_DIMS];
  for (size_t d = 0; d < rank; d++) from[d] = d;
  if (is_call_of(call, "aten::permute_copy.out")) {
    if (call->args[1].as.list.count != rank || !ecx_arg_ints(call, 1, rank, dims)) return false;
    for (size_t d = 0; d < rank; d++) from[d] = wrapped(dims[d], rank);
  } else if (is_call_of(call, "aten::t_copy.out") ||
             is_call_of(call, "aten::transpose_copy.int_out")) {
    const bool both = call->count == 2;
    const size_t x = both ? 0 : wrapped(ecx_arg_int(call, 1), rank);
    const size_t y = both ? 1 : wrapped(ecx_arg_int(call, 2), rank);
    if (x >= rank || y >= rank) return false;
    from[x] = y;
    from[y] = x;
  } else {
    return false;
  }
  for (size_t d = 0; d < rank; d++) moved[d] = from[at[d]];
  memcpy(at, moved, rank * sizeof *at);
  return true;
}

static bool is_zero(const ec_backend_value *v) {
  const size_t count = ecx_elements(v);
  if (v->tensor.dtype != INT64 && v->tensor.dtype != INT32 && v->tensor.dtype != INT8) return false;
  const uint8_t *at = v->tensor.data;
  for (size_t i = 0; i < v->tensor.nbytes; i++)
    if (at[i]) return false;
  return count > 0;
}

static double scale_at(const ecx_weights *w, size_t i) {
  if (!w->scales) return w->scale;
  if (w->scales->tensor.dtype == FLOAT64) return ((const double *)w->scales->tensor.data)[i];
  return (double)((const float *)w->scales->tensor.data)[i];
}

static bool is_scale(double scale) { return scale > 0 && isnormal((float)scale); }

/* Reads dequantize_per_channel. The scales are along dimension `*axis` of the codes. */
static bool read_channels(const ec_backend_kernel_call *call, ecx_weights *w, size_t *axis) {
  const ec_backend_value *codes = ecx_arg_value(call, 0), *zeros = ecx_arg_value(call, 2);
  w->scales = ecx_arg_value(call, 1);
  *axis = wrapped(ecx_arg_int(call, 3), codes->tensor.rank);
  if (!ecx_is_constant(w->scales) || *axis >= codes->tensor.rank ||
      (w->scales->tensor.dtype != FLOAT32 && w->scales->tensor.dtype != FLOAT64) ||
      ecx_elements(w->scales) != (size_t)codes->tensor.sizes[*axis])
    return false;
  for (size_t i = 0; i < ecx_elements(w->scales); i++)
    if (!is_scale(scale_at(w, i))) return false;
  return !zeros || (ecx_is_constant(zeros) && is_zero(zeros));
}

static bool read_dequantization(const ec_backend_kernel_call *call, ecx_weights *w, size_t *axis) {
  if (is_call_of(call, "quantized_decomposed::dequantize_per_channel.out"))
    return read_channels(call, w, axis);
  *axis = XNN_MAX_TENSOR_DIMS;
  return is_call_of(call, "quantized_decomposed::dequantize_per_tensor.out") &&
         ecx_arg_number(call, 1, &w->scale) && is_scale(w->scale) && ecx_arg_int(call, 2) == 0;
}

bool ecx_find_weights(const ec_backend_value *v, ecx_weights *out) {
  size_t at[XNN_MAX_TENSOR_DIMS], axis, moves = 0;
  const size_t rank = v->tensor.rank;
  const ec_backend_kernel_call *call = v->from;
  if (!ecx_is_constant(v) || v->tensor.dtype != FLOAT32 || rank > XNN_MAX_TENSOR_DIMS) return false;
  for (size_t d = 0; d < rank; d++) at[d] = d;
  for (; call && moves < MAX_MOVES && undo_move(call, rank, at); moves++)
    call = ecx_arg_value(call, 0)->from;
  if (!call || !ecx_arg_value(call, 0)) return false;
  *out = (ecx_weights){.codes = ecx_arg_value(call, 0), .axis = rank};
  if (!ecx_is_constant(out->codes) || out->codes->tensor.dtype != INT8 ||
      out->codes->tensor.rank != rank || !read_dequantization(call, out, &axis))
    return false;
  for (size_t d = 0; d < rank; d++) {
    if (out->codes->tensor.sizes[at[d]] != v->tensor.sizes[d]) return false;
    out->strides[d] = out->codes->tensor.strides[at[d]];
    if (at[d] == axis) out->axis = d;
  }
  return true;
}

/* ---- in a draft ------------------------------------------------------------------------------ */

/* Adds the scales of channels as data. */
static uint32_t add_scales(ecx_delegation *b, const ecx_weights *w, size_t count) {
  const size_t known = w->scales ? ecx_elements(w->scales) : 1;
  float *copy = ecx_draft_alloc(b->draft, count * sizeof *copy + ECX_EXTRA);
  char *key = ecx_draft_alloc(b->draft, KEY);
  if (!copy || !key) return 0;
  for (size_t i = 0; i < count; i++) copy[i] = (float)scale_at(w, i % known);
  if (!w->scales) snprintf(key, KEY, "%a.%zu", w->scale, count);
  else snprintf(key, KEY, "%" PRIxPTR ".%zu", (uintptr_t)w->scales->tensor.data, count);
  const bool has_name = !w->scales || w->scales->is_shared;
  return ecx_draft_data(b->draft, &(ecx_data){.at = copy, .size = count * sizeof *copy,
                                              .key = has_name ? key : NULL});
}

uint32_t ecx_copy_weights(ecx_delegation *b, const ecx_weights *w, const ecx_shape *shape,
                          const size_t dims[5], const int64_t strides[5], size_t dim, size_t count,
                          const char *key) {
  char how[KEY];
  snprintf(how, sizeof how, "codes.%s", key);
  const uint32_t id = ecx_copy_constant(b, w->codes, shape, dims, strides, how);
  const uint32_t scales = add_scales(b, w, count);
  if (b->draft->failed) return ECX_NONE;
  b->draft->values[id].coding =
      (ecx_coding){.dtype = ECX_qcint8, .scales = scales, .channel_dim = (uint32_t)dim};
  return id;
}

/* Returns the id of weights as floats. */
static uint32_t add_floats(ecx_draft *d, uint32_t id) {
  const ecx_draft_value v = d->values[id];
  const ecx_data codes = d->data[v.constant], scales = d->data[v.coding.scales];
  const size_t channels = v.shape.dims[v.coding.channel_dim];
  size_t inner = 1;
  for (size_t k = v.coding.channel_dim + 1; k < v.shape.rank; k++) inner *= v.shape.dims[k];
  float *floats = ecx_draft_alloc(d, codes.size * sizeof *floats + ECX_EXTRA);
  char *key = ecx_draft_alloc(d, 2 * KEY);
  if (!floats || !key) return ECX_NONE;
  for (size_t i = 0; i < codes.size; i++)
    floats[i] = (float)((const int8_t *)codes.at)[i] *
                ((const float *)scales.at)[i / inner % channels];
  const bool has_name = codes.key && scales.key;
  if (has_name) snprintf(key, 2 * KEY, "%s.floats.%s", codes.key, scales.key);
  return ecx_draft_constant(d, &v.shape, &(ecx_data){.at = floats,
                                                     .size = codes.size * sizeof *floats,
                                                     .key = has_name ? key : NULL});
}

void ecx_settle_weights(ecx_draft *d, ecx_draft_node *n) {
  const ecx_layout *layout = ecx_kinds[n->kind].layout;
  if (d->failed || n->is_replaced || ecx_kinds[n->kind].types != ECX_WEIGHTS) return;
  const uint32_t filter = n->fields[layout->in[1]];
  if (d->values[n->fields[layout->in[0]]].coding.dtype != ECX_fp32 ||
      d->values[filter].coding.dtype != ECX_qcint8)
    return;
  const uint32_t floats = add_floats(d, filter);
  if (!d->failed) n->fields[layout->in[1]] = floats;
}
