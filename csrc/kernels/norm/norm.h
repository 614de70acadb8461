/* Shared code of the normalisations: parameters in the compute type, contiguous operands, and the
 * loops by dtype. They compute in float (double for float64), sums of long rows in double. */
#ifndef EC_KERNELS_NORM_NORM_H
#define EC_KERNELS_NORM_NORM_H

#include "kernels/copy.h"

/* Returns a tensor's elements in row-major order: its own memory, or a copy in scratch. */
ec_status ec_norm_contiguous(ec_call *c, const ec_tensor *t, const void **data);

/* Returns row-major memory for results: out's memory, or scratch that ec_norm_flush copies
 * later. */
ec_status ec_norm_target(ec_call *c, ec_tensor *out, void **data);
void ec_norm_flush(const ec_call *c, ec_tensor *out, const void *data);

/* Returns the dtype of sums of `dtype`. */
static inline ec_dtype ec_norm_computed(ec_dtype dtype) {
  return dtype == EC_FLOAT64 ? EC_FLOAT64 : EC_FLOAT32;
}

/* Returns a parameter's elements in row-major order, in the compute type of `dtype`; NULL for
 * NULL. */
ec_status ec_norm_parameter(ec_call *c, const ec_tensor *t, ec_dtype dtype, const void **data);

/* Checks that argument `i` (None allowed) has the dtype of argument 0, or float32 if that is
 * float16 or bfloat16. All parameters of a call must agree; `*found` is the first one (argument +
 * 1). */
ec_status ec_norm_check_parameter(ec_call *c, size_t i, size_t *first);

/* Checks that argument `i`, the normalised shape, matches the input's last dimensions, after
 * `*lead` others; and that a parameter (None allowed) has this shape. */
ec_status ec_norm_check_layer(ec_call *c, size_t i, ec_ints shape, const ec_tensor *input,
                              size_t *lead);
ec_status ec_norm_check_shape(ec_call *c, size_t i, ec_ints shape);

/* Checks arguments N, C, HxW and group from `n` on, the input's elements, and the weight. */
ec_status ec_norm_check_group(ec_call *c, size_t input, size_t weight, size_t n);

/* Writes `n` doubles to an output of any floating dtype. */
void ec_norm_store(const ec_call *c, ec_tensor *out, const double *values);

/* The loops of one dtype. w, b, scale and shift are in the compute type. */
typedef struct ec_norm_loops {
  /* Mean and sum of squared deviations of n elements. */
  void (*moments)(const void *x, size_t n, double *mean, double *squares);
  /* out = (x - mean) * rstd * w + b; w and b may be NULL. */
  void (*normalize)(const void *x, const void *w, const void *b, void *out, size_t n, double mean,
                    double rstd);
  /* out = (x - mean) * scale + shift */
  void (*affine)(const void *x, void *out, size_t n, double mean, double scale, double shift);
  /* Operands out, x, scale, shift. */
  ec_loop channels;
} ec_norm_loops;

extern const ec_norm_loops ec_norm_loops_of[EC_DTYPE_COUNT];

#endif
