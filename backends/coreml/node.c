/* Arguments of operations: values by name, or constants inside the operation. */
#include "node.h"

#include <math.h>
#include <string.h>

enum { INPUTS = 2 };

uint32_t ecm_refuse(ecm_node *n, const char *why) {
  return ecm_fail(&n->m->c, EC_BACKEND_NOT_SUPPORTED, "%s: %s", n->what, why);
}

static uint32_t define_inline(ecm_node *n, ecm_bytes message, ecm_value **out) {
  ecm_value value;
  ECM_TRY(ecm_read_constant(n->m, message, &value));
  ECM_TRY(ecm_define(n->m, (ecm_bytes){(const uint8_t *)"", 0}, &value));
  *out = &n->m->values[n->m->value_count - 1];
  return EC_BACKEND_OK;
}

uint32_t ecm_argument(ecm_node *n, const char *name, ecm_value **out) {
  ecm_bytes argument;
  ecm_field binding, content;
  *out = NULL;
  if (!ecm_wire_entry(n->message, INPUTS, name, &argument)) return EC_BACKEND_OK;
  if (!ecm_wire_find(argument, 1, &binding)) return ecm_refuse(n, "an argument has no value");
  if (ecm_wire_find(binding.bytes, 2, &content)) return define_inline(n, content.bytes, out);
  if (!ecm_wire_find(binding.bytes, 1, &content)) return ecm_refuse(n, "an argument has no name");
  const uint32_t number = ecm_names_find(&n->m->names, content.bytes);
  if (number == UINT32_MAX)
    return ecm_fail(&n->m->c, EC_BACKEND_INVALID_PROGRAM,
                    "%s: argument %s is '%.*s', which no operation before it computes", n->what,
                    name, ecm_clip(content.bytes, 80), (const char *)content.bytes.data);
  *out = &n->m->values[number];
  return EC_BACKEND_OK;
}

uint32_t ecm_input(ecm_node *n, const char *name, int64_t *out) {
  ecm_value *v = NULL;
  ECM_TRY(ecm_argument(n, name, &v));
  if (!v)
    return ecm_fail(&n->m->c, EC_BACKEND_INVALID_PROGRAM, "%s has no argument %s", n->what, name);
  return ecm_tensor(n->m, v, out);
}

static double read_half(const uint8_t *bytes) {
  const unsigned bits = bytes[0] | (unsigned)bytes[1] << 8;
  const unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, -24);
  return sign * ldexp(1024 + fraction, (int)exponent - 25);
}

double ecm_number_at(const ecm_value *v, size_t i) {
  float f;
  int32_t number;
  const size_t width = ect_dtype_size(v->type.dtype);
  if (v->mil == ECM_FLOAT16) return read_half(v->data.data + 2 * i);
  memcpy(&f, v->data.data + width * i, width < 4 ? width : 4);
  memcpy(&number, v->data.data + width * i, width < 4 ? width : 4);
  if (v->mil == ECM_FLOAT32) return (double)f;
  if (v->mil == ECM_INT32) return number;
  if (v->mil == ECM_INT16) return (int16_t)(v->data.data[2 * i] | v->data.data[2 * i + 1] << 8);
  return v->mil == ECM_INT8 ? (int8_t)v->data.data[i] : v->data.data[i];
}

uint32_t ecm_number(ecm_node *n, const char *name, double otherwise, double *out) {
  ecm_value *v = NULL;
  ECM_TRY(ecm_argument(n, name, &v));
  *out = otherwise;
  if (!v) return EC_BACKEND_OK;
  if (!v->is_constant || v->mil == ECM_STRING || ecm_elements(v) != 1)
    return ecm_fail(&n->m->c, EC_BACKEND_NOT_SUPPORTED,
                    "%s: argument %s is not one constant number", n->what, name);
  *out = ecm_number_at(v, 0);
  return EC_BACKEND_OK;
}

uint32_t ecm_numbers(ecm_node *n, const char *name, int64_t *out, size_t room, size_t *count) {
  ecm_value *v = NULL;
  ECM_TRY(ecm_argument(n, name, &v));
  *count = 0;
  if (!v) return EC_BACKEND_OK;
  *count = ecm_elements(v);
  if (!v->is_constant || v->mil != ECM_INT32 || *count > room)
    return ecm_fail(&n->m->c, EC_BACKEND_NOT_SUPPORTED,
                    "%s: argument %s is not a list of at most %zu constant ints", n->what, name,
                    room);
  for (size_t i = 0; i < *count; i++) out[i] = (int64_t)ecm_number_at(v, i);
  return EC_BACKEND_OK;
}

bool ecm_text_is(ecm_node *n, const char *name, const char *text, bool otherwise) {
  ecm_value *v = NULL;
  if (ecm_argument(n, name, &v) != EC_BACKEND_OK || !v) return otherwise;
  return v->is_constant && v->mil == ECM_STRING && ecm_bytes_equal(v->data, text);
}

int64_t ecm_add_like(ecm_node *n, const ect_tensor *like, int32_t dtype) {
  ect_tensor t = *like;
  t.dtype = dtype;
  t.is_dynamic = true;
  t.role = ECT_COMPUTED;
  return ect_add_tensor(&n->m->program, &t);
}
