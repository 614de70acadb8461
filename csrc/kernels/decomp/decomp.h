/* What the decompositions share: one matrix of a batch at a time, in scratch memory.
 *
 * Everything is computed in double precision: float32 and complex64 are widened when a matrix is
 * copied to scratch memory and rounded once when it is copied back, so two loops serve four dtypes.
 * Matrices in scratch memory are column-major without gaps (the leading dimension is `rows`),
 * whatever the layouts of the tensors. A kernel lists its operands and hands over a function that
 * treats one item. */
#ifndef EC_KERNELS_DECOMP_DECOMP_H
#define EC_KERNELS_DECOMP_DECOMP_H

#include "kernels/copy.h"

enum { EC_DEC_OPERANDS = 7, EC_DEC_NONE = -1 };
enum { EC_TRANSPOSE_IN = 1, EC_TRANSPOSE_OUT = 2, EC_TRANSPOSE = 3 };

/* The last `rank` dimensions of argument `in` are copied to scratch memory before the function, to
 * argument `out` after it. The tensor's part may be smaller than the scratch memory. */
typedef struct ec_dec_operand {
  int in, out;        /* arguments or EC_DEC_NONE */
  size_t rank;        /* 0, 1 or 2 */
  int64_t rows, cols; /* of the scratch memory */
  ec_dtype dtype;     /* of the scratch memory */
  int transposed;     /* EC_TRANSPOSE_*: the matrix is copied in or out transposed */
} ec_dec_operand;

typedef struct ec_dec {
  ec_call *c;
  ec_dtype dtype, real; /* of the first argument; the real one as precise */
  ec_dtype compute;     /* float64 or complex128 */
  bool is_complex;
  size_t rank; /* of the batch */
  int64_t sizes[EC_MAX_RANK];
  int64_t m, n, k, count;
  bool flag[3]; /* the kernel's own */
  size_t operands;
  ec_dec_operand operand[EC_DEC_OPERANDS];
  void *at[EC_DEC_OPERANDS]; /* scratch memory of each operand */
  void *room;                /* more of it, as the kernel took it */
  int64_t item;              /* of the batch */
  int32_t info;              /* 0, or where the first item with an error has it */
  int64_t info_item;
} ec_dec;

typedef ec_status (*ec_dec_fn)(ec_dec *d);

/* The function of a template for the computing type of `d`. */
#define EC_DEC(d, name) ((d)->is_complex ? name##_complex128 : name##_float64)

/* Checks argument `i`, the main one: its dtype is one of the operator's, it has at least two
 * dimensions; m x n are the last two. */
ec_status ec_dec_init(ec_call *c, size_t i, ec_dec *d);

/* Checks another input: dtype of the main argument, dimensions, batch broadcast with the others. */
ec_status ec_dec_input(ec_dec *d, size_t i, size_t rank);
/* The same for tensors of any dtype. */
ec_status ec_dec_batch(ec_dec *d, size_t i, size_t rank);

/* Fails where the main argument is not square. */
ec_status ec_dec_square(ec_dec *d, size_t i);
/* Fails unless the last `rank` sizes of an input are these. */
ec_status ec_dec_expect(ec_dec *d, size_t i, size_t rank, int64_t rows, int64_t cols);

/* Checks an output's dtype and gives it the sizes of the batch and of an item. */
ec_status ec_dec_output(ec_dec *d, size_t i, ec_dtype dtype, size_t rank, int64_t rows,
                        int64_t cols);

/* Outputs of shape (0), for what is not asked for. */
ec_status ec_dec_output_none(ec_dec *d, size_t i);

/* Adds an operand and takes its scratch memory. */
ec_status ec_dec_add(ec_dec *d, ec_dec_operand operand);

/* `count` x `count2` elements of scratch memory in the computing type. */
ec_status ec_dec_room(ec_dec *d, int64_t count, int64_t count2, void *out);

/* Calls `fn` for every item of the batch. */
ec_status ec_dec_run(ec_dec *d, ec_dec_fn fn);

/* Remembers the first item that has an info. */
static inline void ec_dec_info(ec_dec *d, int32_t info) {
  if (!info || d->info) return;
  d->info = info;
  d->info_item = d->item;
}

/* Fails where an item has an info: `what` takes it as its only number. */
ec_status ec_dec_check(ec_dec *d, const char *what);

#endif
