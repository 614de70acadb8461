/* Arguments of operations: values by name, or constants inside the operation. */
#include "node.h"

#include <string.h>

#include "../pack.h"
#include "core/half.h"

enum { INPUTS = 2, OUTPUTS = 3, ATTRIBUTES = 5 };

uint32_t ecm_refuse(ecm_node *n, const char *why) {
  return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_NOT_SUPPORTED, "%s: %s", n->what, why);
}

static uint32_t define_inline(ecm_node *n, ecm_bytes message, ecm_value **out) {
  ecm_value value;
  EC_BACKEND_TRY(ecm_read_constant(n->m, message, &value));
  EC_BACKEND_TRY(ecm_define(n->m, (ecm_bytes){(const uint8_t *)"", 0}, &value));
  *out = &n->m->values[n->m->value_count - 1];
  return EC_BACKEND_OK;
}

static uint32_t find_binding(ecm_node *n, const char *name, ecm_field binding, ecm_value **out) {
  ecm_field content;
  if (ecm_wire_find(binding.bytes, 2, &content)) return define_inline(n, content.bytes, out);
  if (!ecm_wire_find(binding.bytes, 1, &content)) return ecm_refuse(n, "an argument has no name");
  const uint32_t number = ect_names_find(&n->m->names, content.bytes);
  if (number == UINT32_MAX)
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_INVALID_PROGRAM,
                           "%s: argument %s is '%.*s', which no operation before it computes",
                           n->what, name, ecm_clip(content.bytes, 80),
                           (const char *)content.bytes.data);
  *out = &n->m->values[number];
  return EC_BACKEND_OK;
}

uint32_t ecm_argument(ecm_node *n, const char *name, ecm_value **out) {
  ecm_bytes argument;
  ecm_field binding;
  *out = NULL;
  if (!ecm_wire_entry(n->message, INPUTS, name, &argument)) return EC_BACKEND_OK;
  if (!ecm_wire_find(argument, 1, &binding)) return ecm_refuse(n, "an argument has no value");
  return find_binding(n, name, binding, out);
}

bool ecm_find_inline(ecm_bytes operation, const char *name, ecm_bytes *message) {
  ecm_bytes argument;
  ecm_field binding, content;
  if (ecm_wire_entry(operation, ATTRIBUTES, name, message)) return true;
  if (!ecm_wire_entry(operation, INPUTS, name, &argument) ||
      !ecm_wire_find(argument, 1, &binding) || !ecm_wire_find(binding.bytes, 2, &content))
    return false;
  *message = content.bytes;
  return true;
}

uint32_t ecm_constant(ecm_node *n, const char *name, ecm_value *out, bool *found) {
  ecm_bytes message;
  ecm_value *v = NULL;
  *found = ecm_find_inline(n->message, name, &message);
  if (*found) EC_BACKEND_TRY(ecm_read_constant(n->m, message, out));
  else EC_BACKEND_TRY(ecm_argument(n, name, &v));
  if (v) *out = *v;
  *found |= v != NULL;
  if (*found && (!out->is_constant || out->mil == ECM_STRING))
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_INVALID_PROGRAM, "%s: %s is not constant", n->what,
                           name);
  return EC_BACKEND_OK;
}

uint32_t ecm_input(ecm_node *n, const char *name, int64_t *out) {
  ecm_value *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  if (!v)
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_INVALID_PROGRAM, "%s has no argument %s", n->what,
                           name);
  return ecm_tensor(n->m, v, out);
}

double ecm_number_at(const ecm_value *v, size_t i) {
  float f;
  int32_t number;
  uint16_t half;
  const size_t width = ec_backend_dtype_size(v->type.dtype);
  memcpy(&half, v->data.data + width * i, width < 2 ? width : 2);
  if (v->mil == ECM_FLOAT16) return (double)ec_f16_to_f32(half);
  memcpy(&f, v->data.data + width * i, width < 4 ? width : 4);
  memcpy(&number, v->data.data + width * i, width < 4 ? width : 4);
  if (v->mil == ECM_FLOAT32) return (double)f;
  if (v->mil == ECM_INT32) return number;
  if (v->mil == ECM_INT16) return (int16_t)half;
  return v->mil == ECM_INT8 ? (int8_t)v->data.data[i] : v->data.data[i];
}

uint32_t ecm_number(ecm_node *n, const char *name, double otherwise, double *out) {
  ecm_value *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *out = otherwise;
  if (!v) return EC_BACKEND_OK;
  if (!v->is_constant || v->mil == ECM_STRING || ecm_elements(v) != 1)
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_NOT_SUPPORTED,
                           "%s: argument %s is not one constant number", n->what, name);
  *out = ecm_number_at(v, 0);
  return EC_BACKEND_OK;
}

uint32_t ecm_numbers(ecm_node *n, const char *name, int64_t *out, size_t room, size_t *count) {
  ecm_value *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *count = 0;
  if (!v) return EC_BACKEND_OK;
  *count = ecm_elements(v);
  const bool is_list = v->is_constant && (v->mil == ECM_INT32 || v->mil == ECM_BOOL);
  if (!is_list || *count > room)
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_NOT_SUPPORTED,
                           "%s: argument %s is not a list of at most %zu constant ints or bools",
                           n->what, name, room);
  for (size_t i = 0; i < *count; i++) out[i] = ecm_to_int(ecm_number_at(v, i));
  return EC_BACKEND_OK;
}

bool ecm_text_is(ecm_node *n, const char *name, const char *text, bool otherwise) {
  ecm_value *v = NULL;
  if (ecm_argument(n, name, &v) != EC_BACKEND_OK || !v) return otherwise;
  return v->is_constant && v->mil == ECM_STRING && ecm_bytes_equal(v->data, text);
}

int64_t ecm_add_like(ecm_node *n, const ect_tensor *like, int32_t dtype) {
  return ect_add_like(&n->m->program, like, dtype);
}

uint32_t ecm_typed(ecm_node *n, const char *name, int64_t *id, ect_tensor *out) {
  *out = (ect_tensor){0};
  EC_BACKEND_TRY(ecm_input(n, name, id));
  const ect_tensor *t = ect_tensor_at(&n->m->program, *id);
  if (!t) return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  *out = *t;
  return EC_BACKEND_OK;
}

/* Reads an element of a computed tensor of rank 0 or 1 as a number of the program. */
static uint32_t read_element(ecm_node *n, int64_t tensor, const ect_tensor *t, size_t i,
                             int64_t *out) {
  ect_program *p = &n->m->program;
  const ect_tensor scalar = {.dtype = t->dtype};
  if (t->rank == 1) {
    const int64_t args[] = {tensor, ect_add_int(p, 0), ect_add_int(p, (int64_t)i)};
    EC_BACKEND_TRY(ecm_step(n, "aten::select_copy.int_out", args, 3, &scalar, &tensor));
  }
  *out = ect_add_int(p, 0);
  const int64_t args[] = {tensor, *out};
  ect_add_call(p, "aten::_local_scalar_dense", args, 2, NULL);
  return EC_BACKEND_OK;
}

uint32_t ecm_ints(ecm_node *n, const char *name, int64_t *ids, size_t room, size_t *count) {
  ecm_value *v = NULL;
  int64_t numbers[ECM_MOST_VALUES], tensor = 0;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *count = 0;
  if (!v) return EC_BACKEND_OK;
  if (v->is_constant) {
    EC_BACKEND_TRY(ecm_numbers(n, name, numbers, room, count));
    for (size_t i = 0; i < *count; i++) ids[i] = ect_add_int(&n->m->program, numbers[i]);
    return EC_BACKEND_OK;
  }
  const ect_tensor t = v->type;
  *count = t.rank ? (size_t)t.sizes[0] : 1;
  if (t.dtype != EC_DTYPE_INT32 || t.rank > 1 || v->unknown || *count > room)
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_NOT_SUPPORTED,
                           "%s: argument %s is not a list of at most %zu ints", n->what, name,
                           room);
  EC_BACKEND_TRY(ecm_tensor(n->m, v, &tensor));
  for (size_t i = 0; i < *count; i++) EC_BACKEND_TRY(read_element(n, tensor, &t, i, &ids[i]));
  return EC_BACKEND_OK;
}

uint32_t ecm_list(ecm_node *n, const char *name, int64_t *ids, size_t room, size_t *count) {
  ecm_bytes argument;
  ecm_field binding;
  *count = 0;
  if (!ecm_wire_entry(n->message, INPUTS, name, &argument))
    return EC_BACKEND_FAIL(&n->m->c, EC_BACKEND_INVALID_PROGRAM, "%s has no argument %s", n->what,
                           name);
  while (ecm_wire_next(&argument, &binding)) {
    ecm_value *v = NULL;
    if (binding.number != 1) continue;
    if (*count == room) return ecm_refuse(n, "an argument has too many values");
    EC_BACKEND_TRY(find_binding(n, name, binding, &v));
    EC_BACKEND_TRY(ecm_tensor(n->m, v, &ids[(*count)++]));
  }
  return *count ? (uint32_t)EC_BACKEND_OK : ecm_refuse(n, "an argument has no values");
}

uint32_t ecm_axis(ecm_node *n, const char *name, int64_t otherwise, uint32_t rank, int64_t *out) {
  double axis = 0;
  EC_BACKEND_TRY(ecm_number(n, name, (double)otherwise, &axis));
  if (axis < 0) axis += rank;
  if (!(axis >= 0 && axis < (rank ? rank : 1))) return ecm_refuse(n, "axis is out of range");
  *out = (int64_t)axis;
  return EC_BACKEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

uint32_t ecm_call_op(ecm_node *n, const char *op, const int64_t *args, size_t count,
                     const int64_t *outs, size_t out_count, bool is_shown) {
  return ect_pack_call(n->m->c.call, &n->m->program, op, args, count, outs, out_count,
                       is_shown ? &n->shown : NULL, n->what);
}

uint32_t ecm_step(ecm_node *n, const char *op, const int64_t *args, size_t count,
                  const ect_tensor *like, int64_t *out) {
  const ect_tensor *type = like ? like : &n->type.type;
  const int64_t result = ecm_add_like(n, type, type->dtype);
  EC_BACKEND_TRY(ecm_call_op(n, op, args, count, &result, 1, false));
  *out = result;
  return EC_BACKEND_OK;
}

uint32_t ecm_finish(ecm_node *n, const char *op, const int64_t *args, size_t count) {
  return ecm_call_op(n, op, args, count, &n->result, 1, true);
}

/* ---- results --------------------------------------------------------------------------------- */

static uint32_t define_result(ecm_node *n, ecm_bytes output, int64_t *id) {
  ecm_field name, type;
  ecm_value value;
  if (!ecm_wire_find(output, 1, &name) || !ecm_wire_find(output, 2, &type))
    return ecm_refuse(n, "a result has no name or type");
  EC_BACKEND_TRY(ecm_read_type(n->m, type.bytes, &value));
  EC_BACKEND_TRY(ecm_tensor(n->m, &value, id));
  n->shown.debug_handle = ect_names_find(&n->m->handles, name.bytes);
  return ecm_define(n->m, name.bytes, &value);
}

uint32_t ecm_results(ecm_node *n, int64_t *ids, size_t *count) {
  ecm_field field;
  *count = 0;
  for (ecm_bytes rest = n->message; ecm_wire_next(&rest, &field);) {
    if (field.number != OUTPUTS) continue;
    if (*count == ECM_MOST_VALUES) return ecm_refuse(n, "more than 64 results");
    EC_BACKEND_TRY(define_result(n, field.bytes, &ids[(*count)++]));
  }
  return EC_BACKEND_OK;
}

uint32_t ecm_result_names(ecm_node *n, ecm_bytes names[2], ecm_value *last) {
  ecm_field field, name, type;
  size_t count = 0;
  for (ecm_bytes rest = n->message; ecm_wire_next(&rest, &field);) {
    if (field.number != OUTPUTS || count == 2) continue;
    if (!ecm_wire_find(field.bytes, 1, &name) || !ecm_wire_find(field.bytes, 2, &type))
      return ecm_refuse(n, "a result has no name or type");
    names[count++] = name.bytes;
    if (count == 2) return ecm_read_type(n->m, type.bytes, last);
  }
  return ecm_refuse(n, "fewer than two results");
}
