/* Kinds and dtypes have the ids of the runtime. */
#include "api/value.h"

size_t ecr_dtype_size(int32_t dtype) {
  return ec_dtype_valid(dtype) ? ec_dtype_size((ec_dtype)dtype) : 0;
}

const char *ecr_dtype_name(int32_t dtype) {
  return ec_dtype_valid(dtype) ? ec_dtype_name((ec_dtype)dtype) : NULL;
}

static ecr_value of_scalar(ec_scalar s) {
  ecr_value v = {.kind = ECR_OTHER};
  if (s.kind == EC_KIND_INT) v = (ecr_value){ECR_INT, {.i = s.as.i}};
  if (s.kind == EC_KIND_DOUBLE) v = (ecr_value){ECR_DOUBLE, {.d = s.as.d}};
  if (s.kind == EC_KIND_BOOL) v = (ecr_value){ECR_BOOL, {.b = s.as.b}};
  return v;
}

ecr_value ecr_described(const ec_value_info *info) {
  const ec_tensor_info *t = &info->tensor;
  switch (info->kind) {
  case EC_KIND_NONE: return (ecr_value){.kind = ECR_NONE};
  case EC_KIND_STRING: return (ecr_value){ECR_STRING, {.string = info->string}};
  case EC_KIND_TENSOR:
    return (ecr_value){ECR_TENSOR, {.tensor = {NULL, (int32_t)t->dtype, (uint32_t)t->rank,
                                               t->sizes, NULL}}};
  default: return of_scalar(info->scalar);
  }
}

ecr_value ecr_converted(const ec_value *value) {
  if (value->kind == EC_KIND_NONE) return (ecr_value){.kind = ECR_NONE};
  if (value->kind == EC_KIND_STRING) return (ecr_value){ECR_STRING, {.string = value->as.string}};
  return ec_is_number(value) ? of_scalar(ec_value_scalar(value)) : (ecr_value){.kind = ECR_OTHER};
}
