/* The pointwise engine: one output element from one to three input elements.
 *
 * Loops exist per computed dtype only. An operand that is stored otherwise is converted in blocks
 * through a small buffer, and so is the result: mixed dtypes never multiply loops. float16 and
 * bfloat16 compute in float32 and round once at the end; their loops are float32's. */
#ifndef EC_KERNELS_POINTWISE_POINT_H
#define EC_KERNELS_POINTWISE_POINT_H

#include "kernels/copy.h"
#include "kernels/promote.h"

enum { EC_POINT_INPUTS = 3, EC_POINT_PARAMS = 8 };

/* Numbers that a loop needs (alpha, bounds, slopes); the loop takes the kind it computes in. */
typedef struct ec_params {
  struct {
    double d;
    int64_t i;
  } v[EC_POINT_PARAMS];
  bool zero_division; /* set by loops of integer division */
} ec_params;

/* at[0] is the output, at[1] ... the inputs; steps in bytes. */
typedef void (*ec_point_loop)(int64_t n, char *const *at, const int64_t *step, ec_params *params);

/* Loops by computed dtype, NULL where the operator does not have it. */
typedef const ec_point_loop ec_point_loops[EC_DTYPE_COUNT];

/* One operand: converted to `logical`, the dtype that eager computes in (a half rounds there),
 * then to `work`, the dtype that the loop reads. */
typedef struct ec_operand {
  const ec_tensor *tensor;
  ec_dtype logical, work;
} ec_operand;

typedef struct ec_point {
  size_t inputs;
  ec_operand in[EC_POINT_INPUTS];
  ec_dtype logical, work; /* of the result: the loop writes `work`, rounded to `logical` */
  ec_point_loop loop;
  ec_params params;
  const ec_call *call; /* on whose threads; NULL: one */
} ec_point;

/* A number as a 0-d tensor of any dtype (converted as ec_cast_scalar). */
typedef struct ec_number {
  ec_tensor tensor;
  uint64_t element[2];
} ec_number;

void ec_number_init(ec_number *number, ec_dtype dtype, ec_scalar s);

/* The dtype that a loop computes in for a logical dtype: float32 for the halves. */
static inline ec_dtype ec_work_dtype(ec_dtype d) {
  return ec_dtype_in(d, EC_SET_HALF) ? EC_FLOAT32 : d;
}

/* The loop for a logical dtype; fails naming the dtype and those that there are. */
ec_status ec_point_find(ec_call *c, ec_point_loops loops, ec_dtype logical, ec_point_loop *loop);

/* Checks the output's dtype, broadcasts, resizes argument `o`, and runs the loop. */
ec_status ec_point_run(ec_call *c, size_t o, ec_point *p);

/* Only runs the loop: `out` has the shape that the inputs broadcast to, and any dtype. */
void ec_point_apply(ec_tensor *out, ec_point *p);

/* The number given as argument `i`, where it fits the dtype as eager demands (fill, clamp, alpha:
 * integers do not wrap, except negative ones to unsigned dtypes; finite floats stay finite). */
ec_status ec_call_check_scalar(ec_call *c, size_t i, ec_dtype dtype);

/* How an operator of one or two operands chooses its dtypes. */
typedef enum ec_point_flags {
  EC_POINT_SAME = 0,
  EC_POINT_TO_FLOAT = 1,     /* integers and bool compute in float32 */
  EC_POINT_TO_BOOL = 2,      /* the loop writes bool */
  EC_POINT_EXACT_SCALAR = 4, /* a second number keeps float32's precision beside halves */
  EC_POINT_AS_BOOL = 8,      /* operands are only asked whether they are non-zero */
  EC_POINT_TO_REAL = 16      /* the loop writes real numbers for complex ones */
} ec_point_flags;

/* Argument 0 to argument `o`; `params` may be NULL. */
ec_status ec_unary(ec_call *c, size_t o, ec_point_loops loops, unsigned flags,
                   const ec_params *params);

/* Arguments 0 and 1, each a tensor or a number, to argument `o`. */
ec_status ec_binary(ec_call *c, size_t o, ec_point_loops loops, unsigned flags,
                    const ec_params *params);

/* Kernels that other kernels are made of. */
ec_status ec_op_mul_out(ec_call *c);
ec_status ec_op_pow_tensor_tensor_out(ec_call *c);

#endif
