/* Result types as torch computes them: dimensioned tensors decide first, 0-d tensors only raise
 * the category (bool < integer < floating < complex), Python numbers only above those. */
#ifndef EC_KERNELS_PROMOTE_H
#define EC_KERNELS_PROMOTE_H

#include "kernels/call.h"

/* The dtype that holds both. False where torch has none (uint16/32/64 with another integer). */
bool ec_promote_types(ec_dtype a, ec_dtype b, ec_dtype *out);

/* Whether torch lets a result of dtype `from` be written to an output of dtype `to`. */
bool ec_can_cast(ec_dtype from, ec_dtype to);

/* The dtype of torch's default conversion of a number: int64, float32 or bool. */
ec_dtype ec_scalar_dtype(ec_scalar s);

/* What has been seen of an operator's operands; zeroed is "nothing". */
typedef struct ec_result_type {
  uint8_t dim, zero, number; /* dtype + 1 by class of operand, 0: none seen */
  bool impossible;           /* a pair had no common dtype */
} ec_result_type;

void ec_result_add_tensor(ec_result_type *r, const ec_tensor *t);
void ec_result_add_scalar(ec_result_type *r, ec_scalar s);

/* The common dtype; fails (InvalidArgument) where torch has none. */
ec_status ec_result_dtype(ec_call *c, const ec_result_type *r, ec_dtype *out);

/* Of two tensors, or a tensor and a number, given as arguments `i` and `j`. */
ec_status ec_call_promote(ec_call *c, size_t i, size_t j, ec_dtype *out);

/* Integers and bool become float32, others stay. */
static inline ec_dtype ec_to_float(ec_dtype d) {
  return ec_dtype_in(d, EC_SET_INTB) ? EC_FLOAT32 : d;
}

/* complex64 -> float32, complex128 -> float64, others stay. */
static inline ec_dtype ec_to_real(ec_dtype d) {
  return d == EC_COMPLEX64 ? EC_FLOAT32 : d == EC_COMPLEX128 ? EC_FLOAT64 : d;
}

/* Fails where an output argument cannot take a result of that dtype (ec_can_cast). */
ec_status ec_call_check_cast(ec_call *c, size_t i, ec_dtype result);

#endif
