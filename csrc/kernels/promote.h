/* Result types as in torch: tensors with dimensions decide first, 0-d tensors only raise the
 * category (bool < integer < floating < complex), Python numbers only above those. */
#ifndef EC_KERNELS_PROMOTE_H
#define EC_KERNELS_PROMOTE_H

#include "kernels/call.h"

/* Finds the dtype that can hold both. Returns false if torch has none (uint16/32/64 with another
 * integer). */
bool ec_promote_types(ec_dtype a, ec_dtype b, ec_dtype *out);

/* True if torch allows an output of dtype `to` for a result of dtype `from`. */
bool ec_can_cast(ec_dtype from, ec_dtype to);

/* Returns torch's default dtype for a number: int64, float32 or bool. */
ec_dtype ec_scalar_dtype(ec_scalar s);

/* The operands of an operator seen so far; zeroed means none. */
typedef struct ec_result_type {
  uint8_t dim, zero, number; /* dtype + 1 by class of operand, 0: none yet */
  bool impossible;           /* a pair had no common dtype */
} ec_result_type;

void ec_result_add_tensor(ec_result_type *r, const ec_tensor *t);
void ec_result_add_scalar(ec_result_type *r, ec_scalar s);

/* Returns the common dtype. InvalidArgument if torch has none. */
ec_status ec_result_dtype(ec_call *c, const ec_result_type *r, ec_dtype *out);

/* Promotes two tensors, or a tensor and a number: arguments `i` and `j`. */
ec_status ec_call_promote(ec_call *c, size_t i, size_t j, ec_dtype *out);

/* Returns float32 for integers and bool, other dtypes unchanged. */
static inline ec_dtype ec_to_float(ec_dtype d) {
  return ec_dtype_in(d, EC_SET_INTB) ? EC_FLOAT32 : d;
}

/* Returns float32 for complex64, float64 for complex128, other dtypes unchanged. */
static inline ec_dtype ec_to_real(ec_dtype d) {
  return d == EC_COMPLEX64 ? EC_FLOAT32 : d == EC_COMPLEX128 ? EC_FLOAT64 : d;
}

/* Fails if an output argument cannot hold a result of this dtype (ec_can_cast). */
ec_status ec_call_check_cast(ec_call *c, size_t i, ec_dtype result);

#endif
