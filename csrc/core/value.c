/* Names of kinds, and conversion of numbers. */
#include "core/value.h"

const char *ec_kind_name(ec_kind kind) {
  switch (kind) {
  case EC_KIND_NONE: return "None";
  case EC_KIND_TENSOR: return "Tensor";
  case EC_KIND_STRING: return "String";
  case EC_KIND_DOUBLE: return "Double";
  case EC_KIND_INT: return "Int";
  case EC_KIND_BOOL: return "Bool";
  case EC_KIND_BOOL_LIST: return "BoolList";
  case EC_KIND_DOUBLE_LIST: return "DoubleList";
  case EC_KIND_INT_LIST: return "IntList";
  case EC_KIND_TENSOR_LIST: return "TensorList";
  case EC_KIND_OPTIONAL_TENSOR_LIST: return "OptionalTensorList";
  }
  return "unknown kind";
}

int64_t ec_scalar_int(ec_scalar s) {
  if (s.kind == EC_KIND_INT) return s.as.i;
  if (s.kind == EC_KIND_BOOL) return s.as.b;
  if (s.as.d != s.as.d) return 0;
  if (s.as.d >= 0x1p63) return INT64_MAX;
  if (s.as.d < -0x1p63) return INT64_MIN;
  return (int64_t)s.as.d;
}
