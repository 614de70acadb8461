/* Binding: the inputs and outputs of one call, checked against the program. */
#include "runtime/load/binding.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/native.h"

static ec_status find_input(ec_method *m, size_t index, ec_input_slot **out, ec_error *err) {
  if (index >= m->input_count)
    return ec_fail(err, EC_INVALID_ARGUMENT, "method '%s' has %zu inputs, input %zu does not exist",
                   m->name, m->input_count, index);
  *out = &m->inputs[index];
  return EC_OK;
}

static ec_status fail_kind(const ec_method *m, size_t index, const char *actual, ec_error *err) {
  const ec_value *v = m->inputs[index].value;
  return ec_fail(err, EC_INVALID_ARGUMENT, "method '%s', input %zu: found %s, expected %s%s%s",
                 m->name, index, actual, ec_kind_name((ec_kind)v->kind),
                 v->kind == EC_KIND_TENSOR ? " of " : "",
                 v->kind == EC_KIND_TENSOR ? ec_dtype_name(ec_tensor_dtype(v->as.tensor)) : "");
}

static bool overlaps(const void *a, size_t size, const void *b, size_t other) {
  const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return size && other && x < y + other && y < x + size;
}

bool ec_method_owns(const ec_method *m, const void *data, size_t size) {
  for (size_t i = 1; i < m->planned_count; i++)
    if (overlaps(data, size, m->planned[i], m->planned_sizes[i])) return true;
  for (size_t i = 0; i < m->initial_count; i++) {
    const ec_placement *p = m->initials[i].placement;
    if (overlaps(data, size, p->data, p->nbytes)) return true;
  }
  return false;
}

/* True if the array has the tensor's shape, and the strides and alignment that the program uses. */
static bool has_layout(const ec_tensor *t, const ec_array *a) {
  int64_t item = (int64_t)ec_dtype_size(a->dtype);
  for (size_t d = 0; d < t->rank; d++)
    if (t->sizes[d] > 1 && a->strides[d] != t->strides[d] * item) return false;
  return (uintptr_t)a->data % (size_t)(item > 8 ? 8 : item) == 0;
}

ec_status ec_method_bind_input(ec_method *m, size_t index, const ec_array *array, ec_error *err) {
  ec_input_slot *slot = NULL;
  char text[EC_SHAPE_TEXT];
  size_t shown = array->rank < EC_MAX_RANK ? array->rank : EC_MAX_RANK;
  EC_TRY(find_input(m, index, &slot, err));
  if (slot->value->kind != EC_KIND_TENSOR) return fail_kind(m, index, "an array", err);
  ec_tensor *t = slot->value->as.tensor;
  if (array->dtype != ec_tensor_dtype(t))
    return ec_fail_hint(err, EC_INVALID_ARGUMENT, EC_HINT_CONVERT,
                        "method '%s', input %zu: dtype %s, expected %s", m->name, index,
                        ec_dtype_name(array->dtype), ec_dtype_name(ec_tensor_dtype(t)));
  if (array->rank != t->rank)
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "method '%s', input %zu: shape %s has %zu dimensions, expected %u", m->name,
                   index, ec_shape_text(array->sizes, shown, text, sizeof text), array->rank,
                   t->rank);
  ec_status status = ec_tensor_set_sizes(t, array->rank, array->sizes, err);
  if (status != EC_OK) return ec_fail_in(err, status, "method '%s', input %zu", m->name, index);
  slot->array = *array;
  for (size_t d = 0; d < t->rank; d++) { /* NumPy has no sizes for rank 0 */
    slot->sizes[d] = array->sizes[d];
    slot->strides[d] = array->strides[d];
  }
  const bool in_place = slot->in_place && t->numel && has_layout(t, array) &&
                        !ec_method_owns(m, array->data, ec_tensor_nbytes(t));
  slot->binding = in_place ? EC_BOUND_IN_PLACE : EC_BOUND_COPY;
  return EC_OK;
}

static bool equals_traced(const ec_value *traced, ec_scalar given) {
  double want = ec_value_double(traced), got = ec_scalar_double(given);
  if (traced->kind != EC_KIND_DOUBLE)
    return given.kind != EC_KIND_DOUBLE && ec_scalar_int(given) == ec_value_int(traced);
  if (want == got || (isnan(want) && isnan(got))) return true;
  return fabs(want - got) <= 1e-4 + 1e-5 * fabs(want); /* the reference's tolerance */
}

ec_status ec_method_bind_scalar(ec_method *m, size_t index, ec_scalar scalar, ec_error *err) {
  ec_input_slot *slot = NULL;
  EC_TRY(find_input(m, index, &slot, err));
  /* Slots that instructions change are compared with the traced value. */
  const ec_value *traced =
      m->first_values ? &m->first_values[slot->value - m->values] : slot->value;
  if (!ec_is_number(traced) ||
      (traced->kind == EC_KIND_BOOL) != (scalar.kind == EC_KIND_BOOL))
    return fail_kind(m, index, ec_kind_name(scalar.kind), err);
  if (!equals_traced(traced, scalar))
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "method '%s', input %zu: %.17g, but the program was exported for %.17g only",
                   m->name, index, ec_scalar_double(scalar), ec_value_double(traced));
  slot->binding = EC_BOUND_VALUE;
  return EC_OK;
}

ec_status ec_method_bind_string(ec_method *m, size_t index, const char *text, ec_error *err) {
  ec_input_slot *slot = NULL;
  EC_TRY(find_input(m, index, &slot, err));
  if (slot->value->kind != EC_KIND_STRING) return fail_kind(m, index, "a string", err);
  if (strcmp(slot->value->as.string, text) != 0)
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "method '%s', input %zu: '%.100s', but the program was exported for '%.100s'",
                   m->name, index, text, slot->value->as.string);
  slot->binding = EC_BOUND_VALUE;
  return EC_OK;
}

ec_status ec_method_bind_none(ec_method *m, size_t index, ec_error *err) {
  ec_input_slot *slot = NULL;
  EC_TRY(find_input(m, index, &slot, err));
  if (slot->value->kind != EC_KIND_NONE) return fail_kind(m, index, "None", err);
  slot->binding = EC_BOUND_VALUE;
  return EC_OK;
}

bool ec_method_input_is_mutated(const ec_method *m, size_t index) {
  return index < m->input_count && m->inputs[index].mutated;
}

bool ec_method_output_is_static(const ec_method *m, size_t index) {
  const ec_value *v = index < m->output_count ? m->outputs[index].value : NULL;
  return v && v->kind == EC_KIND_TENSOR && v->as.tensor->dynamism == EC_STATIC;
}

ec_status ec_method_bind_output(ec_method *m, size_t index, void *data, size_t nbytes,
                                ec_error *err) {
  if (!ec_method_output_is_static(m, index))
    return ec_fail(err, EC_INVALID_ARGUMENT, "method '%s': output %zu has no fixed shape", m->name,
                   index);
  const ec_tensor *t = m->outputs[index].value->as.tensor;
  if (nbytes != ec_tensor_nbytes(t))
    return ec_fail(err, EC_INVALID_ARGUMENT, "method '%s', output %zu: %zu bytes, expected %zu",
                   m->name, index, nbytes, ec_tensor_nbytes(t));
  m->outputs[index].bound = nbytes ? data : NULL;
  return EC_OK;
}
