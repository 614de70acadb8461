/* Values of a method: the arguments and results of instructions.
 *
 * A slot's kind (number, tensor, list or None) is fixed when the method is loaded, so accessors do
 * not check it. The kind of number (Int, Double, Bool) can change: the export flow writes Int(0)
 * for results of executorch_prim operators that turn out to be Bool or Double. */
#ifndef EC_CORE_VALUE_H
#define EC_CORE_VALUE_H

#include "core/tensor.h"

/* The reference's runtime tags. */
typedef enum ec_kind {
  EC_KIND_NONE = 0,
  EC_KIND_TENSOR = 1,
  EC_KIND_STRING = 2,
  EC_KIND_DOUBLE = 3,
  EC_KIND_INT = 4,
  EC_KIND_BOOL = 5,
  EC_KIND_BOOL_LIST = 6,
  EC_KIND_DOUBLE_LIST = 7,
  EC_KIND_INT_LIST = 8,
  EC_KIND_TENSOR_LIST = 9,
  EC_KIND_OPTIONAL_TENSOR_LIST = 11
} ec_kind;

typedef struct ec_value {
  uint32_t kind;  /* an ec_kind */
  uint32_t count; /* items of a list, bytes of a string without its NUL */
  union {
    int64_t i;
    double d;
    bool b;
    ec_tensor *tensor;
    const char *string;      /* NUL-terminated */
    const bool *bools;
    const double *doubles;
    struct ec_value **items; /* Int values of an int list; Tensor or None values of tensor lists */
  } as;
} ec_value;

static inline bool ec_is_number(const ec_value *v) {
  return v->kind == EC_KIND_INT || v->kind == EC_KIND_DOUBLE || v->kind == EC_KIND_BOOL;
}

/* "Tensor", "Int", "TensorList", ... for messages. */
const char *ec_kind_name(ec_kind kind);

/* A number of any kind: an argument of schema type Scalar. */
typedef struct ec_scalar {
  ec_kind kind; /* EC_KIND_INT, EC_KIND_DOUBLE or EC_KIND_BOOL */
  union {
    int64_t i;
    double d;
    bool b;
  } as;
} ec_scalar;

static inline double ec_scalar_double(ec_scalar s) {
  return s.kind == EC_KIND_DOUBLE ? s.as.d : s.kind == EC_KIND_INT ? (double)s.as.i : s.as.b;
}

/* Truncates; saturates outside int64; NaN becomes 0. Never undefined. */
int64_t ec_scalar_int(ec_scalar s);

/* Returns the number in a slot. */
static inline ec_scalar ec_value_scalar(const ec_value *v) {
  ec_scalar s = {.kind = (ec_kind)v->kind};
  if (v->kind == EC_KIND_DOUBLE) s.as.d = v->as.d;
  else if (v->kind == EC_KIND_BOOL) s.as.b = v->as.b;
  else s.as.i = v->as.i;
  return s;
}

static inline int64_t ec_value_int(const ec_value *v) {
  return v->kind == EC_KIND_INT ? v->as.i : ec_scalar_int(ec_value_scalar(v));
}

static inline double ec_value_double(const ec_value *v) {
  return v->kind == EC_KIND_DOUBLE ? v->as.d : ec_scalar_double(ec_value_scalar(v));
}

static inline bool ec_value_bool(const ec_value *v) {
  return v->kind == EC_KIND_BOOL ? v->as.b : ec_value_double(v) != 0;
}

#endif
