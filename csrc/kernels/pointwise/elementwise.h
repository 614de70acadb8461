/* The pointwise engine: one output element from one to three input elements.
 *
 * Loops exist only per compute dtype. An operand with another dtype is converted in blocks through
 * a small buffer, and so is the result: mixed dtypes never multiply loops. float16 and bfloat16
 * compute in float32 and round once at the end; their loops are float32's. */
#ifndef EC_KERNELS_POINTWISE_ELEMENTWISE_H
#define EC_KERNELS_POINTWISE_ELEMENTWISE_H

#include "kernels/copy.h"
#include "kernels/pointwise/params.h"
#include "kernels/promote.h"

/* Loops by compute dtype, NULL for unsupported ones. */
typedef const ec_elementwise_loop ec_elementwise_loops[EC_DTYPE_COUNT];

/* One operand: converted to `logical`, the dtype that eager computes in (with rounding to float16
 * or bfloat16), then to `compute`, the dtype of the loop. */
typedef struct ec_operand {
  const ec_tensor *tensor;
  ec_dtype logical, compute;
} ec_operand;

typedef struct ec_elementwise {
  size_t inputs;
  ec_operand in[EC_ELEMENTWISE_INPUTS];
  ec_dtype logical, compute; /* of the result: the loop writes `compute`, rounded to `logical` */
  ec_elementwise_loop loop;
  ec_params params;
  const ec_call *call; /* its threads are used; NULL: one thread */
  struct ec_record *record; /* of the call, which this completes; NULL: none */
  struct ec_joined *joined; /* takes the loop of the call, which this completes; NULL: none */
} ec_elementwise;

/* A number as a 0-d tensor of any dtype (converted as ec_cast_scalar). */
typedef struct ec_number {
  ec_tensor tensor;
  uint64_t element[2];
} ec_number;

void ec_number_init(ec_number *number, ec_dtype dtype, ec_scalar s);

/* Returns the dtype of loops for a logical dtype: float32 for float16 and bfloat16. */
static inline ec_dtype ec_compute_dtype(ec_dtype d) {
  return ec_dtype_in(d, EC_SET_HALF) ? EC_FLOAT32 : d;
}

/* Finds the loop for a logical dtype. The error names the dtype and the supported ones. */
ec_status ec_elementwise_find(ec_call *c, ec_elementwise_loops loops, ec_dtype logical,
                              ec_elementwise_loop *loop);

/* Checks the output's dtype, broadcasts, resizes argument `o`, and runs the loop. */
ec_status ec_elementwise_run(ec_call *c, size_t o, ec_elementwise *p);

/* Runs only the loop: `out` already has the broadcast shape, and any dtype. */
void ec_elementwise_apply(ec_tensor *out, ec_elementwise *p);

/* Checks that the number in argument `i` fits the dtype as eager requires (fill, clamp, alpha):
 * integers do not wrap, except negative ones to unsigned dtypes; finite floats stay finite. */
ec_status ec_call_check_scalar(ec_call *c, size_t i, ec_dtype dtype);

/* The dtypes of an operator with one or two operands. */
typedef enum ec_elementwise_flags {
  EC_ELEMENTWISE_SAME = 0,
  EC_ELEMENTWISE_TO_FLOAT = 1,     /* integers and bool compute in float32 */
  EC_ELEMENTWISE_TO_BOOL = 2,      /* the loop writes bool */
  /* a second number keeps float32's precision with float16 or bfloat16 */
  EC_ELEMENTWISE_EXACT_SCALAR = 4,
  EC_ELEMENTWISE_AS_BOOL = 8,      /* operands are only tested for non-zero */
  EC_ELEMENTWISE_TO_REAL = 16      /* the loop writes real numbers for complex ones */
} ec_elementwise_flags;

/* Computes argument `o` from argument 0; `params` may be NULL. */
ec_status ec_unary(ec_call *c, size_t o, ec_elementwise_loops loops, unsigned flags,
                   const ec_params *params);

/* Computes argument `o` from arguments 0 and 1, each a tensor or a number. */
ec_status ec_binary(ec_call *c, size_t o, ec_elementwise_loops loops, unsigned flags,
                    const ec_params *params);

/* Kernels that other kernels call. */
ec_status ec_op_mul_out(ec_call *c);
ec_status ec_op_pow_tensor_tensor_out(ec_call *c);

#endif
