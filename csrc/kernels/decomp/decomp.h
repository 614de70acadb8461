/* Shared code of the decompositions: one matrix of a batch at a time, in scratch memory.
 *
 * Everything is computed in double precision. float32 and complex64 are widened on the way to
 * scratch memory and rounded once on the way back, so two loops serve four dtypes. Matrices in
 * scratch memory are column-major without gaps (the leading dimension is `rows`), whatever the
 * layouts of the tensors. A kernel lists its operands and passes a function for one item. */
#ifndef EC_KERNELS_DECOMP_DECOMP_H
#define EC_KERNELS_DECOMP_DECOMP_H

#include "kernels/copy.h"

enum { EC_DEC_OPERANDS = 7, EC_DEC_NONE = -1 };
enum { EC_TRANSPOSE_IN = 1, EC_TRANSPOSE_OUT = 2, EC_TRANSPOSE = 3 };

/* The last `rank` dimensions of argument `in` are copied to scratch memory before the function, and
 * to argument `out` after it. The tensor's part may be smaller than the scratch memory. */
typedef struct ec_dec_operand {
  int in, out;        /* arguments or EC_DEC_NONE */
  size_t rank;        /* 0, 1 or 2 */
  int64_t rows, cols; /* of the scratch memory */
  ec_dtype dtype;     /* of the scratch memory */
  int transposed;     /* EC_TRANSPOSE_*: the matrix is copied in or out transposed */
} ec_dec_operand;

typedef struct ec_dec {
  ec_call *c;
  ec_dtype dtype, real; /* of the first argument; `real` has the same precision */
  ec_dtype compute;     /* float64 or complex128 */
  bool is_complex;
  size_t rank; /* of the batch */
  int64_t sizes[EC_MAX_RANK];
  int64_t m, n, k, count;
  bool flag[3]; /* free for the kernel */
  size_t operands;
  ec_dec_operand operand[EC_DEC_OPERANDS];
  void *at[EC_DEC_OPERANDS]; /* scratch memory of each operand */
  void *room;                /* additional scratch memory of the kernel */
  int64_t item;              /* of the batch */
  int32_t info;              /* 0, or the position of an error in the first item with one */
  int64_t info_item;
} ec_dec;

typedef ec_status (*ec_dec_fn)(ec_dec *d);

/* The template function for the compute type of `d`. */
#define EC_DEC(d, name) ((d)->is_complex ? name##_complex128 : name##_float64)

/* Checks the main argument `i`: a dtype of the operator, at least two dimensions. Sets m x n to the
 * last two. */
ec_status ec_dec_init(ec_call *c, size_t i, ec_dec *d);

/* Checks another input: dtype of the main argument, dimensions, batch broadcast with the others. */
ec_status ec_dec_input(ec_dec *d, size_t i, size_t rank);
/* The same for tensors of any dtype. */
ec_status ec_dec_batch(ec_dec *d, size_t i, size_t rank);

/* Fails if the main argument is not square. */
ec_status ec_dec_square(ec_dec *d, size_t i);
/* Fails unless the last `rank` sizes of an input are these. */
ec_status ec_dec_expect(ec_dec *d, size_t i, size_t rank, int64_t rows, int64_t cols);

/* Checks an output's dtype and resizes it to the sizes of the batch and of an item. */
ec_status ec_dec_output(ec_dec *d, size_t i, ec_dtype dtype, size_t rank, int64_t rows,
                        int64_t cols);

/* Resizes an unrequested output to shape (0). */
ec_status ec_dec_output_none(ec_dec *d, size_t i);

/* Adds an operand and allocates its scratch memory. */
ec_status ec_dec_add(ec_dec *d, ec_dec_operand operand);

/* Allocates `count` x `count2` elements of scratch memory in the compute type. */
ec_status ec_dec_room(ec_dec *d, int64_t count, int64_t count2, void *out);

/* Calls `fn` for every item of the batch. */
ec_status ec_dec_run(ec_dec *d, ec_dec_fn fn);

/* Records the first item with a non-zero info. */
static inline void ec_dec_info(ec_dec *d, int32_t info) {
  if (!info || d->info) return;
  d->info = info;
  d->info_item = d->item;
}

/* Fails if an item has a non-zero info; `what` describes it in the message. */
ec_status ec_dec_check(ec_dec *d, const char *what);

#endif
