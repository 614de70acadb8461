/* constexpr_affine_dequantize, computed when the program is translated. */
#include "constexpr.h"

#include <string.h>

enum { ATTRIBUTES = 5 };

typedef struct affine {
  ecm_value data, scale, zero;
  size_t inner, along; /* elements after the axis, and along it */
} affine;

static uint32_t read_attribute(ecm_node *n, const char *name, ecm_value *out) {
  ecm_bytes message;
  if (!ecm_wire_entry(n->message, ATTRIBUTES, name, &message))
    return ecm_fail(&n->m->c, EC_BACKEND_INVALID_PROGRAM, "%s has no attribute %s", n->what, name);
  return ecm_read_constant(n->m, message, out);
}

static uint32_t read_axis(ecm_node *n, affine *a) {
  ecm_value v;
  int32_t axis;
  const ect_tensor *t = &a->data.type;
  ECM_TRY(read_attribute(n, "axis", &v));
  if (v.mil != ECM_INT32 || v.data.size != sizeof axis) return ecm_refuse(n, "axis is not an int");
  memcpy(&axis, v.data.data, sizeof axis);
  if (axis < 0) axis += (int32_t)t->rank;
  if (axis < 0 || axis >= (int32_t)t->rank) return ecm_refuse(n, "axis is out of range");
  a->along = (size_t)t->sizes[axis];
  a->inner = 1;
  for (uint32_t d = (uint32_t)axis + 1; d < t->rank; d++) a->inner *= (size_t)t->sizes[d];
  return EC_BACKEND_OK;
}

static uint32_t check(ecm_node *n, const affine *a) {
  const ecm_value *ints[] = {&a->data, &a->zero};
  for (size_t i = 0; i < 2; i++)
    if (ints[i]->mil != ECM_INT8 && ints[i]->mil != ECM_UINT8)
      return ecm_refuse(n, "data or zero points are not 8-bit integers");
  if (a->scale.mil != ECM_FLOAT32) return ecm_refuse(n, "scales are not float32");
  const size_t scales = ecm_elements(&a->scale), zeros = ecm_elements(&a->zero);
  if ((scales != 1 && scales != a->along) || (zeros != 1 && zeros != a->along))
    return ecm_refuse(n, "scales or zero points are neither one nor one for each channel");
  if (n->type.mil != ECM_FLOAT32) return ecm_refuse(n, "the result is not float32");
  return EC_BACKEND_OK;
}

uint32_t ecm_affine_dequantize(ecm_node *n, ecm_value *out) {
  affine a = {.inner = 1, .along = 1};
  ECM_TRY(read_attribute(n, "quantized_data", &a.data));
  ECM_TRY(read_attribute(n, "scale", &a.scale));
  ECM_TRY(read_attribute(n, "zero_point", &a.zero));
  if (a.data.type.rank) ECM_TRY(read_axis(n, &a));
  ECM_TRY(check(n, &a));
  const size_t count = ecm_elements(&a.data);
  const bool many = ecm_elements(&a.scale) > 1, zeros = ecm_elements(&a.zero) > 1;
  float *items = count > SIZE_MAX / 8 ? NULL : ecm_own(n->m, count * sizeof *items);
  if (!items) return ecm_fail(&n->m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a weight");
  for (size_t i = 0; i < count; i++) {
    const size_t channel = i / a.inner % a.along;
    const double zero = ecm_number_at(&a.zero, zeros ? channel : 0);
    items[i] = (float)(ecm_number_at(&a.data, i) - zero) *
               (float)ecm_number_at(&a.scale, many ? channel : 0);
  }
  const ect_tensor type = a.data.type;
  *out = (ecm_value){.id = ECT_NO_VALUE, .mil = ECM_FLOAT32, .type = type, .is_constant = true,
                     .data = {(const uint8_t *)items, count * sizeof *items}};
  out->type.dtype = 6;
  return EC_BACKEND_OK;
}
