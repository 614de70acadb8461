/* Arguments of calls, and their forms in the draft. */
#include "delegate_at_load/forms.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "delegate_at_load/draft.h"
#include "payload/schema.h"
#include "payload/values.h"

/* ---- arguments ------------------------------------------------------------------------------- */

enum { LIST_OF_INTS = 8 };

const ec_backend_value *ecx_arg_value(const ec_backend_kernel_call *call, size_t i) {
  return call->args[i].kind == EC_BACKEND_TENSOR ? call->args[i].slot : NULL;
}

bool ecx_arg_ints(const ec_backend_kernel_call *call, size_t i, size_t count, int64_t *out) {
  const ec_backend_arg *arg = &call->args[i];
  if (arg->kind != LIST_OF_INTS || arg->as.list.count == 0 || arg->as.list.count > count)
    return false;
  for (size_t k = 0; k < count; k++)
    out[k] = arg->as.list.items[k < arg->as.list.count ? k : arg->as.list.count - 1].as.i;
  return true;
}

bool ecx_arg_number(const ec_backend_kernel_call *call, size_t i, double *out) {
  const ec_backend_arg *arg = &call->args[i];
  switch (arg->kind) {
  case EC_BACKEND_DOUBLE: *out = arg->as.d; return true;
  case EC_BACKEND_INT: *out = (double)arg->as.i; return true;
  case EC_BACKEND_BOOL: *out = arg->as.b; return true;
  default: return false;
  }
}

int64_t ecx_arg_int(const ec_backend_kernel_call *call, size_t i) {
  return call->args[i].kind == EC_BACKEND_INT ? call->args[i].as.i : 0;
}

bool ecx_arg_bool(const ec_backend_kernel_call *call, size_t i) {
  return call->args[i].kind == EC_BACKEND_BOOL && call->args[i].as.b;
}

bool ecx_arg_is_none(const ec_backend_kernel_call *call, size_t i) {
  return call->args[i].kind == EC_BACKEND_NONE;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const size_t to_last[4] = {0, 2, 3, 1}, to_plain[4] = {0, 3, 1, 2};

ecx_shape ecx_shape_of(const ec_backend_value *v, ecx_form form) {
  ecx_shape s = {.rank = v->tensor.rank};
  const int64_t *sizes = v->tensor.sizes;
  if (s.rank == 3 && form == ECX_FORM_LAST) /* a row of a picture */
    return (ecx_shape){.rank = 4,
                       .dims = {(size_t)sizes[0], 1, (size_t)sizes[2], (size_t)sizes[1]}};
  for (size_t d = 0; d < s.rank; d++)
    s.dims[d] = (size_t)sizes[form == ECX_FORM_LAST ? to_last[d] : d];
  if (s.rank == 0) s = (ecx_shape){.rank = 1, .dims = {1}};
  return s;
}

size_t ecx_dim_in(const ec_backend_value *v, ecx_form form, size_t dim) {
  static const size_t of_picture[4] = {0, 3, 1, 2}, of_row[3] = {0, 3, 2};
  if (form == ECX_FORM_PLAIN) return dim;
  return v->tensor.rank == 3 ? of_row[dim] : of_picture[dim];
}

bool ecx_can_be_last(const ec_backend_value *v) {
  return v->tensor.rank == 4 || (v->tensor.rank == 3 && !v->is_dynamic);
}

size_t ecx_elements(const ec_backend_value *v) {
  size_t count = 1;
  for (size_t d = 0; d < v->tensor.rank; d++) count *= (size_t)v->tensor.sizes[d];
  return count;
}

bool ecx_is_constant(const ec_backend_value *v) { return v && v->tensor.data; }

bool ecx_is_turned(const ec_backend_value *v) {
  return ecx_is_constant(v) && v->tensor.rank == 2 && v->tensor.dim_order[0] == 1;
}

bool ecx_has_shape(const ec_backend_value *v, size_t rank, const int64_t *sizes) {
  bool same = v && v->tensor.rank == rank;
  for (size_t d = 0; same && d < rank; d++) same = v->tensor.sizes[d] == sizes[d];
  return same;
}

ecx_form ecx_memory_form(const ec_backend_value *v) {
  const uint8_t *order = v->tensor.dim_order;
  bool is_plain = true, is_last = v->tensor.rank == 4;
  for (size_t d = 0; d < v->tensor.rank; d++) {
    is_plain = is_plain && order[d] == d;
    is_last = is_last && order[d] == to_last[d];
  }
  return is_plain ? ECX_FORM_PLAIN : is_last ? ECX_FORM_LAST : ECX_FORMS;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static ecx_entry *entry_of(const ecx_delegation *b, const ec_backend_value *v) {
  return &b->entries[v->number];
}

bool ecx_has_form(const ecx_delegation *b, const ec_backend_value *v, ecx_form form) {
  const ecx_entry *e = entry_of(b, v);
  return e->ids[form] != ECX_NONE || (e->integers && ecx_has_form(b, e->integers, form));
}

/* True if a value is read in one place, besides that where it is
 * written: inputs and views are not. */
static bool has_one_reader(const ecx_delegation *b, uint32_t number) {
  return b->entries[number].places <= (b->entries[number].is_given ? 1 : 2);
}

void ecx_bind(ecx_delegation *b, const ec_backend_value *v, ecx_form form, uint32_t id) {
  entry_of(b, v)->ids[form] = id;
  if (b->draft->failed || id == ECX_NONE) return;
  ecx_draft_value *to = &b->draft->values[id];
  if (to->owner != ECX_NONE && to->owner != v->number && !has_one_reader(b, to->owner))
    to->is_shared = true;
  to->owner = v->number;
}

bool ecx_is_read_once(const ecx_delegation *b, uint32_t id) {
  const ecx_draft_value *v = &b->draft->values[id];
  if (v->is_shared || v->is_output || v->readers > 1) return false;
  return v->owner == ECX_NONE || has_one_reader(b, v->owner);
}

uint32_t ecx_write(ecx_delegation *b, const ec_backend_value *v, ecx_form form) {
  const ecx_shape shape = ecx_shape_of(v, form);
  const uint32_t id = ecx_draft_result(b->draft, &shape);
  ecx_bind(b, v, form, id);
  return id;
}

/* ---- integers -------------------------------------------------------------------------------- */

bool ecx_is_same_coding(const ecx_coding *a, const ecx_coding *b) {
  return a->dtype == b->dtype && a->scale == b->scale && a->zero_point == b->zero_point;
}

uint32_t ecx_integers_of(const ecx_draft *d, uint32_t id) {
  if (d->failed || id == ECX_NONE || d->values[id].producer == ECX_NONE) return ECX_NONE;
  const ecx_draft_node *n = &d->nodes[d->values[id].producer];
  if (n->kind != ECX_KIND_Convert || d->values[id].coding.dtype != ECX_fp32) return ECX_NONE;
  return n->fields[ECX_Unary_input];
}

uint32_t ecx_result_like(ecx_delegation *b, uint32_t id, const ecx_shape *shape) {
  const uint32_t out = ecx_draft_result(b->draft, shape);
  if (!b->draft->failed && id != ECX_NONE)
    b->draft->values[out].coding = b->draft->values[id].coding;
  return out;
}

uint32_t ecx_convert(ecx_delegation *b, uint32_t id, const ecx_coding *coding) {
  if (b->draft->failed || id == ECX_NONE) return ECX_NONE;
  const ecx_shape shape = b->draft->values[id].shape;
  const uint32_t out = ecx_draft_result(b->draft, &shape);
  ecx_draft_add(b->draft, ECX_KIND_Convert, &id, 1, out);
  if (!b->draft->failed) b->draft->values[out].coding = *coding;
  return out;
}

uint32_t ecx_dequantize(ecx_delegation *b, uint32_t id) {
  return ecx_convert(b, id, &(ecx_coding){.dtype = ECX_fp32});
}

/* ---- moves ----------------------------------------------------------------------------------- */

uint32_t ecx_reshape(ecx_delegation *b, uint32_t id, const ecx_shape *shape, size_t inferred) {
  const uint32_t integers = ecx_integers_of(b->draft, id);
  if (integers != ECX_NONE) return ecx_dequantize(b, ecx_reshape(b, integers, shape, inferred));
  ecx_shape sizes = *shape;
  if (inferred < XNN_MAX_TENSOR_DIMS) sizes.dims[inferred] = 0;
  const uint32_t out = ecx_result_like(b, id, shape);
  ecx_draft_node *n = ecx_draft_add(b->draft, ECX_KIND_StaticReshape, &id, 1, out);
  ecx_draft_set(n, ECX_Reshape_num_dims, (uint32_t)shape->rank);
  ecx_draft_set_vector(n, ECX_Reshape_new_shape, sizes.dims, sizes.rank);
  return out;
}

uint32_t ecx_transpose(ecx_delegation *b, uint32_t id, const size_t *perm) {
  const uint32_t integers = ecx_integers_of(b->draft, id);
  if (integers != ECX_NONE) return ecx_dequantize(b, ecx_transpose(b, integers, perm));
  if (b->draft->failed || id == ECX_NONE) return ECX_NONE;
  const ecx_shape from = b->draft->values[id].shape;
  ecx_shape to = from;
  for (size_t d = 0; d < from.rank; d++) to.dims[d] = from.dims[perm[d]];
  const uint32_t out = ecx_result_like(b, id, &to);
  ecx_draft_node *n = ecx_draft_add(b->draft, ECX_KIND_StaticTranspose, &id, 1, out);
  ecx_draft_set(n, ECX_Transpose_num_dims, (uint32_t)from.rank);
  ecx_draft_set_vector(n, ECX_Transpose_perm, perm, from.rank);
  return out;
}

/* True if both forms have the elements in the same order. */
static bool is_same_order(const ec_backend_value *v) {
  const int64_t *s = v->tensor.sizes;
  if (v->is_dynamic) return false;
  if (v->tensor.rank == 3) return s[1] == 1 || s[2] == 1;
  return v->tensor.rank == 4 && (s[1] == 1 || (s[2] == 1 && s[3] == 1));
}

/* Makes the first form of an operand: of a constant, or of a view. */
static void make_form(ecx_delegation *b, const ec_backend_value *v) {
  const ecx_form form = ecx_memory_form(v);
  const ecx_shape shape = ecx_shape_of(v, form);
  if (ecx_is_constant(v)) {
    const ecx_data data = {.at = v->tensor.data, .size = v->tensor.nbytes};
    ecx_bind(b, v, form, ecx_draft_constant(b->draft, &shape, &data));
  } else if (v->same) {
    ecx_bind(b, v, ECX_FORM_PLAIN, ecx_reshape(b, ecx_read_flat(b, v->same), &shape, ECX_NONE));
  } else {
    if (!b->draft->failed) b->unreadable = v; /* else for lack of memory */
    b->draft->failed = true;
  }
}

void ecx_prepare(ecx_delegation *b, const ec_backend_value *v) {
  if (entry_of(b, v)->integers) ecx_prepare(b, entry_of(b, v)->integers);
  if (!ecx_has_form(b, v, ECX_FORM_PLAIN) && !ecx_has_form(b, v, ECX_FORM_LAST)) make_form(b, v);
}

ecx_form ecx_best_form(const ecx_delegation *b, const ec_backend_value *v) {
  return ecx_has_form(b, v, ECX_FORM_LAST) ? ECX_FORM_LAST : ECX_FORM_PLAIN;
}

/* Makes a form of the other one. */
static uint32_t turn(ecx_delegation *b, const ec_backend_value *v, ecx_form form, uint32_t other) {
  static const size_t swap[3] = {0, 2, 1};
  const int64_t *sizes = v->tensor.sizes;
  const ecx_shape shape = ecx_shape_of(v, form);
  if (is_same_order(v)) return ecx_reshape(b, other, &shape, ECX_NONE);
  if (v->tensor.rank == 4)
    return ecx_transpose(b, other, form == ECX_FORM_LAST ? to_last : to_plain);
  if (form == ECX_FORM_LAST)
    return ecx_reshape(b, ecx_transpose(b, other, swap), &shape, ECX_NONE);
  const ecx_shape rows = {
      .rank = 3, .dims = {(size_t)sizes[0], (size_t)sizes[2], (size_t)sizes[1]}};
  return ecx_transpose(b, ecx_reshape(b, other, &rows, ECX_NONE), swap);
}

uint32_t ecx_read(ecx_delegation *b, const ec_backend_value *v, ecx_form form) {
  const ecx_form other = form == ECX_FORM_LAST ? ECX_FORM_PLAIN : ECX_FORM_LAST;
  const ecx_entry *e = entry_of(b, v);
  ecx_prepare(b, v);
  if (e->ids[form] != ECX_NONE) return e->ids[form];
  ecx_bind(b, v, form, e->integers ? ecx_dequantize(b, ecx_read(b, e->integers, form))
                                   : turn(b, v, form, e->ids[other]));
  return e->ids[form];
}

void ecx_watch(ecx_delegation *b, uint32_t id) {
  if (id != ECX_NONE) b->draft->values[id].is_watched = true;
}

uint32_t ecx_read_flat(ecx_delegation *b, const ec_backend_value *v) {
  ecx_prepare(b, v);
  if (is_same_order(v)) return ecx_read(b, v, ecx_best_form(b, v));
  return ecx_read(b, v, ECX_FORM_PLAIN);
}

/* ---- constants ------------------------------------------------------------------------------- */

uint32_t ecx_number(ecx_delegation *b, float value) {
  const ecx_shape one = {.rank = 1, .dims = {1}};
  float *copy = ecx_draft_alloc(b->draft, sizeof *copy + ECX_EXTRA);
  if (!copy) return ECX_NONE;
  *copy = value;
  const ecx_data data = {.at = copy, .size = sizeof *copy};
  return ecx_draft_constant(b->draft, &one, &data);
}

/* Copies a row of elements of 1 or 4 bytes. */
static void copy_row(char *to, const char *from, size_t count, int64_t stride, size_t size) {
  if (size == 1)
    for (size_t i = 0; i < count; i++) to[i] = from[(int64_t)i * stride];
  else
    for (size_t i = 0; i < count; i++) memcpy(to + 4 * i, from + 4 * ((int64_t)i * stride), 4);
}

static void copy_elements(char *to, const char *from, const size_t dims[5],
                          const int64_t strides[5], size_t size) {
  for (size_t a = 0; a < dims[0]; a++)
    for (size_t b = 0; b < dims[1]; b++)
      for (size_t c = 0; c < dims[2]; c++)
        for (size_t d = 0; d < dims[3]; d++, to += dims[4] * size) {
          const int64_t at = (int64_t)a * strides[0] + (int64_t)b * strides[1] +
                             (int64_t)c * strides[2] + (int64_t)d * strides[3];
          copy_row(to, from + at * (int64_t)size, dims[4], strides[4], size);
        }
}

/* Names a copy by the constant's address, which is the same in all methods of a program, and by its
 * layout in memory. */
static const char *make_key(ecx_delegation *b, const ec_backend_value *v, const char *how) {
  enum { KEY = 96 };
  char *key = v->is_shared && how ? ecx_draft_alloc(b->draft, KEY) : NULL;
  if (key) snprintf(key, KEY, "%" PRIxPTR ".%s.%d", (uintptr_t)v->tensor.data, how,
                    (int)ecx_memory_form(v));
  return key;
}

uint32_t ecx_copy_constant(ecx_delegation *b, const ec_backend_value *v, const ecx_shape *shape,
                           const size_t dims[5], const int64_t strides[5], const char *key) {
  ecx_data data = {.size = v->tensor.nbytes, .key = make_key(b, v, key)};
  int64_t dense = 1;
  bool copied = false;
  for (size_t d = 5; d-- > 0;) {
    copied = copied || (dims[d] > 1 && strides[d] != dense);
    dense *= (int64_t)dims[d];
  }
  data.at = v->tensor.data;
  if (copied) {
    char *copy = ecx_draft_alloc(b->draft, data.size + ECX_EXTRA);
    if (!copy) return ECX_NONE;
    copy_elements(copy, v->tensor.data, dims, strides, data.size / ecx_elements(v));
    data.at = copy;
  } else {
    data.is_of_program = v->is_shared;
    data.room = v->tensor.capacity;
  }
  return ecx_draft_constant(b->draft, shape, &data);
}

uint32_t ecx_read_spread(ecx_delegation *b, const ec_backend_value *v, size_t of) {
  const size_t rank = v->tensor.rank;
  if (ecx_elements(v) == 1 || rank == 0) return ecx_read(b, v, ECX_FORM_PLAIN);
  if (rank == of) return ecx_read(b, v, ECX_FORM_LAST);
  size_t sizes[4] = {1, 1, 1, 1}, dims[5] = {1};
  int64_t from[4] = {0}, strides[5] = {0};
  for (size_t d = 0; d < rank; d++) {
    /* a dimension of a row: without the height, which is dimension 2 */
    const size_t at = of - rank + d, in = of == 3 && at == 2 ? 3 : at;
    sizes[in] = (size_t)v->tensor.sizes[d];
    from[in] = v->tensor.strides[d];
  }
  ecx_shape shape = {.rank = 4};
  for (size_t d = 0; d < 4; d++) {
    shape.dims[d] = dims[d + 1] = sizes[to_last[d]];
    strides[d + 1] = from[to_last[d]];
  }
  return ecx_copy_constant(b, v, &shape, dims, strides, NULL);
}
