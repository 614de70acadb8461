/* Operators that only move elements, delegated at load. */
#include "delegate_at_load/delegation.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/integers.h"
#include "payload/schema.h"

/* Returns a dimension from 0 on; the rank if it is out of range. */
static size_t wrap_dim(const ec_backend_value *v, int64_t dim) {
  const int64_t rank = v->tensor.rank;
  if (dim < 0) dim += rank;
  return dim < 0 || dim >= rank ? (size_t)rank : (size_t)dim;
}

/* Finds the size -1 of view_copy; the others are fixed. */
static bool find_inferred(const ec_backend_kernel_call *call, size_t *inferred) {
  const ec_backend_value *out = ecx_arg_out(call);
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  if (call->count != 3 || call->args[1].as.list.count != out->tensor.rank ||
      !ecx_arg_ints(call, 1, out->tensor.rank, sizes))
    return false;
  for (size_t d = 0; d < out->tensor.rank; d++)
    if (sizes[d] == -1) *inferred = d;
    else if (sizes[d] != out->tensor.sizes[d]) return false;
  return true;
}

/* True for a row [n, c, w] as a picture [n, c, 1, w]. */
static bool is_row(const ec_backend_value *row, const ec_backend_value *picture) {
  if (row->tensor.rank != 3 || !ecx_can_be_last(row) || picture->is_dynamic) return false;
  const int64_t *s = row->tensor.sizes, sizes[4] = {s[0], s[1], 1, s[2]};
  return ecx_has_shape(picture, 4, sizes);
}

/* Also squeeze and unsqueeze: the shape of the result says everything. */
const char *ecx_delegate_view(ecx_delegation *b, const ecx_operator *row,
                              const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  size_t inferred = ECX_NONE;
  if (v->tensor.nbytes != ecx_arg_out(call)->tensor.nbytes) return "its shape";
  if (v->is_dynamic && !find_inferred(call, &inferred)) return "a dynamic shape";
  if (!b) return NULL;
  const ec_backend_value *out = ecx_arg_out(call);
  const ecx_shape shape = ecx_shape_of(out, ECX_FORM_PLAIN);
  if (ecx_view_dynamic(b, v, out, inferred)) return NULL;
  if (ecx_has_form(b, v, ECX_FORM_LAST) && (is_row(v, out) || is_row(out, v)))
    ecx_bind(b, out, ECX_FORM_LAST, ecx_read(b, v, ECX_FORM_LAST));
  else
    ecx_bind(b, out, ECX_FORM_PLAIN, ecx_reshape(b, ecx_read_flat(b, v), &shape, inferred));
  return NULL;
}

/* ---- permutations ---------------------------------------------------------------------------- */

static bool is_permutation(const size_t *perm, const size_t expected[4]) {
  for (size_t d = 0; d < 4; d++)
    if (perm[d] != expected[d]) return false;
  return true;
}

/* To channels last and back, only the names of the forms change; of a row, its shape. */
static void add_permutation(ecx_delegation *b, const ec_backend_kernel_call *call,
                            const size_t *perm) {
  static const size_t to_last[4] = {0, 2, 3, 1}, to_plain[4] = {0, 3, 1, 2};
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  if (v->tensor.rank == 4 && is_permutation(perm, to_last)) {
    ecx_bind(b, out, ECX_FORM_PLAIN, ecx_read(b, v, ECX_FORM_LAST));
  } else if (v->tensor.rank == 4 && is_permutation(perm, to_plain)) {
    ecx_bind(b, out, ECX_FORM_LAST, ecx_read(b, v, ECX_FORM_PLAIN));
  } else if (v->tensor.rank == 3 && perm[0] == 0 && perm[1] == 2 &&
             ecx_has_form(b, v, ECX_FORM_LAST)) {
    const ecx_shape shape = ecx_shape_of(out, ECX_FORM_PLAIN);
    ecx_bind(b, out, ECX_FORM_PLAIN,
             ecx_reshape(b, ecx_read(b, v, ECX_FORM_LAST), &shape, ECX_NONE));
  } else {
    ecx_bind(b, out, ECX_FORM_PLAIN, ecx_transpose(b, ecx_read(b, v, ECX_FORM_PLAIN), perm));
  }
}

static bool has_permuted_shape(const ec_backend_kernel_call *call, const size_t *perm) {
  const ec_backend_value *v = ecx_arg_value(call, 0);
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  for (size_t d = 0; d < v->tensor.rank; d++) sizes[d] = v->tensor.sizes[perm[d]];
  return ecx_has_shape(ecx_arg_out(call), v->tensor.rank, sizes);
}

const char *ecx_delegate_permute(ecx_delegation *b, const ecx_operator *row,
                                 const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  const size_t rank = v->tensor.rank;
  int64_t dims[XNN_MAX_TENSOR_DIMS];
  size_t perm[XNN_MAX_TENSOR_DIMS];
  uint32_t seen = 0;
  if (call->args[1].as.list.count != rank || !ecx_arg_ints(call, 1, rank, dims))
    return "its dimensions";
  for (size_t d = 0; d < rank; d++) {
    perm[d] = wrap_dim(v, dims[d]);
    if (perm[d] == rank || seen >> perm[d] & 1) return "its dimensions";
    seen |= 1u << perm[d];
  }
  if (!has_permuted_shape(call, perm)) return "its shape";
  if (b) add_permutation(b, call, perm);
  return NULL;
}

const char *ecx_delegate_transpose(ecx_delegation *b, const ecx_operator *row,
                                   const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  const size_t rank = v->tensor.rank;
  const bool both = call->count == 2; /* t_copy */
  const size_t x = wrap_dim(v, both ? 0 : ecx_arg_int(call, 1));
  const size_t y = wrap_dim(v, both ? 1 : ecx_arg_int(call, 2));
  size_t perm[XNN_MAX_TENSOR_DIMS];
  if (x == rank || y == rank || (both && rank != 2)) return "its dimensions";
  for (size_t d = 0; d < rank; d++) perm[d] = d == x ? y : d == y ? x : d;
  if (!has_permuted_shape(call, perm)) return "its shape";
  if (b) add_permutation(b, call, perm);
  return NULL;
}

/* A broadcast that repeats nothing. */
const char *ecx_delegate_expand(ecx_delegation *b, const ecx_operator *row,
                                const ec_backend_kernel_call *call) {
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  if (v->tensor.nbytes != out->tensor.nbytes) return "it repeats elements";
  return ecx_has_shape(out, v->tensor.rank, v->tensor.sizes) ? ecx_delegate_copy(b, row, call)
                                                             : ecx_delegate_view(b, row, call);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Adds a slice of a dimension, and returns the id of its result. */
static uint32_t add_part(ecx_delegation *b, const ec_backend_value *v, ecx_form form, size_t dim,
                         int64_t start, int64_t size) {
  const uint32_t id = ecx_read(b, v, form), integers = ecx_integers_of(b->draft, id);
  const uint32_t in = integers == ECX_NONE ? id : integers;
  const size_t at = ecx_dim_in(v, form, dim);
  ecx_shape shape = ecx_shape_of(v, form);
  size_t offsets[XNN_MAX_TENSOR_DIMS] = {0};
  offsets[at] = (size_t)start;
  shape.dims[at] = (size_t)size;
  const uint32_t out = ecx_result_like(b, in, &shape);
  ecx_draft_node *n = ecx_draft_add(b->draft, ECX_KIND_StaticSlice, &in, 1, out);
  ecx_draft_set(n, ECX_Slice_num_dims, (uint32_t)shape.rank);
  ecx_draft_set_vector(n, ECX_Slice_offsets, offsets, shape.rank);
  ecx_draft_set_vector(n, ECX_Slice_sizes, shape.dims, shape.rank);
  return integers == ECX_NONE ? out : ecx_dequantize(b, out);
}

/* Adds a slice of one element of a dimension, which the result does not have. */
static void add_element(ecx_delegation *b, const ec_backend_value *v, const ec_backend_value *out,
                        size_t dim, int64_t index) {
  const ecx_shape shape = ecx_shape_of(out, ECX_FORM_PLAIN);
  const uint32_t part = add_part(b, v, ECX_FORM_PLAIN, dim, index, 1);
  ecx_bind(b, out, ECX_FORM_PLAIN, ecx_reshape(b, part, &shape, ECX_NONE));
}

/* True for the shape of a value without a dimension. */
static bool is_element(const ec_backend_value *v, const ec_backend_value *out, size_t dim) {
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  const size_t rank = v->tensor.rank;
  for (size_t d = 0; d + 1 < rank; d++) sizes[d] = v->tensor.sizes[d + (d >= dim)];
  return ecx_has_shape(out, rank - 1, sizes);
}

/* True for the shape of a value with another size of a dimension. */
static bool is_part(const ec_backend_value *v, const ec_backend_value *out, size_t dim) {
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  const size_t rank = v->tensor.rank;
  for (size_t d = 0; d < rank; d++) sizes[d] = v->tensor.sizes[d];
  if (out->tensor.rank == rank) sizes[dim] = out->tensor.sizes[dim];
  return ecx_has_shape(out, rank, sizes);
}

const char *ecx_delegate_select(ecx_delegation *b, const ecx_operator *row,
                                const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  const size_t rank = v->tensor.rank, dim = wrap_dim(v, ecx_arg_int(call, 1));
  if (dim == rank || rank < 2) return "its dimensions";
  if (v->is_dynamic) return "a dynamic shape";
  const int64_t size = v->tensor.sizes[dim];
  int64_t index = ecx_arg_int(call, 2);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return "its index";
  if (!is_element(v, out, dim)) return "its shape";
  if (b) add_element(b, v, out, dim, index);
  return NULL;
}

/* split, and unbind, whose results lack the dimension. */
const char *ecx_delegate_split(ecx_delegation *b, const ecx_operator *row,
                               const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  const ec_backend_arg *outs = &call->args[call->count - 1];
  const size_t dim = wrap_dim(v, ecx_arg_int(call, call->count - 2));
  if (dim == v->tensor.rank || v->tensor.rank < 2) return "its dimensions";
  if (v->is_dynamic) return "a dynamic shape";
  if (b) ecx_prepare(b, v);
  int64_t start = 0;
  for (size_t i = 0; i < outs->as.list.count; i++) {
    const ec_backend_value *out = outs->as.list.items[i].slot;
    const bool whole = is_part(v, out, dim);
    const int64_t size = whole ? out->tensor.sizes[dim] : 1;
    if ((!whole && !is_element(v, out, dim)) || start + size > v->tensor.sizes[dim])
      return "its shape";
    const ecx_form form = b ? ecx_best_form(b, v) : ECX_FORM_PLAIN;
    if (b && !out->is_unread && whole)
      ecx_bind(b, out, form, add_part(b, v, form, dim, start, size));
    if (b && !out->is_unread && !whole) add_element(b, v, out, dim, start);
    start += size;
  }
  return NULL;
}

const char *ecx_delegate_slice(ecx_delegation *b, const ecx_operator *row,
                               const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  const size_t dim = wrap_dim(v, ecx_arg_int(call, 1));
  if (dim == v->tensor.rank || ecx_arg_int(call, 4) != 1) return "its step";
  if (v->is_dynamic) return "a dynamic shape";
  if (!is_part(v, out, dim)) return "its shape";
  const int64_t size = v->tensor.sizes[dim];
  int64_t start = ecx_arg_int(call, 2);
  if (start < 0) start += size;
  if (start < 0 || start > size - out->tensor.sizes[dim]) return "its shape";
  if (!b) return NULL;
  ecx_prepare(b, v);
  const ecx_form form = ecx_best_form(b, v);
  ecx_bind(b, out, form, add_part(b, v, form, dim, start, out->tensor.sizes[dim]));
  return NULL;
}

const char *ecx_delegate_pad(ecx_delegation *b, const ecx_operator *row,
                             const ec_backend_kernel_call *call) {
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  const size_t rank = v->tensor.rank, count = call->args[1].as.list.count;
  int64_t pads[2 * XNN_MAX_TENSOR_DIMS], sizes[XNN_MAX_TENSOR_DIMS];
  size_t before[XNN_MAX_TENSOR_DIMS] = {0}, after[XNN_MAX_TENSOR_DIMS] = {0};
  double value;
  if (!count || count % 2 || count > 2 * rank || !ecx_arg_ints(call, 1, count, pads) ||
      !ecx_arg_number(call, 2, &value))
    return "its padding";
  for (size_t i = 0; i < count; i++)
    if (pads[i] < 0 || pads[i] > INT16_MAX) return "its padding";
  for (size_t d = 0; d < rank; d++) sizes[d] = v->tensor.sizes[d];
  for (size_t i = 0; i < count / 2; i++) sizes[rank - 1 - i] += pads[2 * i] + pads[2 * i + 1];
  if (!ecx_has_shape(out, rank, sizes)) return "its shape";
  if (!b) return NULL;
  ecx_prepare(b, v);
  const ecx_form form = ecx_best_form(b, v);
  for (size_t i = 0; i < count / 2; i++) {
    const size_t d = rank - 1 - i, at = ecx_dim_in(v, form, d);
    before[at] = (size_t)pads[2 * i];
    after[at] = (size_t)pads[2 * i + 1];
  }
  const uint32_t id = ecx_read(b, v, form), integers = ecx_integers_of(b->draft, id);
  const bool has_zero = value == 0 && integers != ECX_NONE;
  const uint32_t in = has_zero ? integers : id;
  const ecx_shape shape = ecx_shape_of(out, form);
  const uint32_t padded = ecx_result_like(b, in, &shape);
  ecx_draft_node *n = ecx_draft_add(b->draft, row->kind, &in, 1, padded);
  ecx_draft_set_vector(n, ECX_Pad_before, before, ecx_shape_of(v, form).rank);
  ecx_draft_set_vector(n, ECX_Pad_after, after, ecx_shape_of(v, form).rank);
  ecx_draft_set_float(n, ECX_Pad_value, (float)value);
  ecx_bind(b, out, form, has_zero ? ecx_dequantize(b, padded) : padded);
  return NULL;
}

/* ---- concatenation --------------------------------------------------------------------------- */

static const ec_backend_value *item_at(const ec_backend_kernel_call *call, size_t i) {
  return call->args[0].as.list.items[i].slot;
}

static const char *check_items(const ec_backend_kernel_call *call, size_t dim) {
  const ec_backend_value *out = ecx_arg_out(call);
  int64_t sum = 0, sizes[XNN_MAX_TENSOR_DIMS];
  for (size_t i = 0; i < call->args[0].as.list.count; i++) {
    const ec_backend_value *v = item_at(call, i);
    if (ecx_is_constant(v)) return "a constant";
    if (v->tensor.rank != out->tensor.rank) return "its shape";
    for (size_t d = 0; d < v->tensor.rank; d++) sizes[d] = out->tensor.sizes[d];
    sizes[dim] = v->tensor.sizes[dim];
    sum += sizes[dim];
    if (!ecx_has_shape(v, out->tensor.rank, sizes)) return "its shape";
  }
  return sum == out->tensor.sizes[dim] ? NULL : "its shape";
}

/* Finds the integers of dequantised values. Returns false unless all have the same coding. */
static bool find_integers(const ecx_draft *d, const uint32_t *ids, size_t count, uint32_t *out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = ecx_integers_of(d, ids[i]);
    if (out[i] == ECX_NONE) return false;
    if (!ecx_is_same_coding(&d->values[out[0]].coding, &d->values[out[i]].coding)) return false;
  }
  return true;
}

/* Joins up to five values at a time. */
static uint32_t join(ecx_delegation *b, const uint32_t *ids, size_t count, size_t axis) {
  static const uint8_t kinds[] = {0, 0, ECX_KIND_Concatenate2, ECX_KIND_Concatenate3,
                                  ECX_KIND_Concatenate4, ECX_KIND_Concatenate5};
  uint32_t integers[ECX_MAX_INPUTS];
  const bool has_integers = find_integers(b->draft, ids, count, integers);
  const uint32_t *in = has_integers ? integers : ids;
  ecx_shape shape = b->draft->values[ids[0]].shape;
  shape.dims[axis] = 0;
  for (size_t i = 0; i < count; i++)
    shape.dims[axis] += b->draft->values[ids[i]].shape.dims[axis];
  const uint32_t out = ecx_result_like(b, in[0], &shape);
  ecx_draft_set(ecx_draft_add(b->draft, kinds[count], in, (unsigned)count, out),
                ECX_Concatenate_axis, (uint32_t)axis);
  return has_integers ? ecx_dequantize(b, out) : out;
}

static void add_concatenation(ecx_delegation *b, const ec_backend_kernel_call *call, size_t dim) {
  const size_t count = call->args[0].as.list.count;
  const ec_backend_value *out = ecx_arg_out(call);
  ecx_form form = ECX_FORM_PLAIN;
  uint32_t ids[ECX_MAX_INPUTS];
  size_t held = 0;
  bool can = ecx_can_be_last(out);
  for (size_t i = 0; i < count; i++) {
    ecx_prepare(b, item_at(call, i));
    can = can && ecx_can_be_last(item_at(call, i));
    if (ecx_has_form(b, item_at(call, i), ECX_FORM_LAST)) form = ECX_FORM_LAST;
  }
  if (!can) form = ECX_FORM_PLAIN;
  const size_t axis = ecx_dim_in(out, form, dim);
  for (size_t i = 0; i < count; i++) {
    ids[held++] = ecx_read(b, item_at(call, i), form);
    if (b->draft->failed) return;
    if (held < ECX_MAX_INPUTS && i + 1 < count) continue;
    if (held > 1) ids[0] = join(b, ids, held, axis);
    if (b->draft->failed) return;
    held = 1;
  }
  ecx_bind(b, out, form, ids[0]);
}

const char *ecx_delegate_concatenate(ecx_delegation *b, const ecx_operator *row,
                                     const ec_backend_kernel_call *call) {
  (void)row;
  const size_t dim = wrap_dim(ecx_arg_out(call), ecx_arg_int(call, 1));
  if (dim == ecx_arg_out(call)->tensor.rank || !call->args[0].as.list.count) return "its dimension";
  const char *reason = check_items(call, dim);
  if (!reason && b) add_concatenation(b, call, dim);
  return reason;
}
