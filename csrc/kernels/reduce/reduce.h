/* The engine of all reductions over dimensions.
 *
 * A plan splits the input's dimensions into kept and reduced ones, merges those that are adjacent
 * in memory, and sorts them. For any layout, the loops see blocks of `k` results with `n` elements
 * each and one stride for each: contiguous elements (a row to reduce) or contiguous results
 * (columns to reduce in parallel). Loops know dtypes, never tensors. */
#ifndef EC_KERNELS_REDUCE_REDUCE_H
#define EC_KERNELS_REDUCE_REDUCE_H

#include "kernels/call.h"

enum {
  EC_REDUCE_BLOCK = 256,   /* results that are reduced together */
  EC_REDUCE_ACC_BYTES = 16 /* of one accumulator: double _Complex */
};

/* An integer type as wide as `type`, at most 8 bytes: the result of comparing its vectors. */
#define EC_REDUCE_MASK(type)                                                                       \
  __typeof__(__builtin_choose_expr(                                                                \
      sizeof(type) == 1, (int8_t)0,                                                                \
      __builtin_choose_expr(sizeof(type) == 2, (int16_t)0,                                         \
                            __builtin_choose_expr(sizeof(type) == 4, (int32_t)0, (int64_t)0))))

/* Accumulators of one block: two arrays with a meaning defined by the loops. */
typedef struct ec_reduce_acc {
  void *a, *b;
} ec_reduce_acc;

typedef struct ec_reduce_block {
  const char *x;  /* the first element */
  int64_t k, ks;  /* results, and the stride between them */
  int64_t n, ns;  /* elements per result, and their stride */
  int64_t base;   /* position of the first of them among all reduced ones, row-major */
  bool plain;     /* use the reference loop */
} ec_reduce_block;

/* The destination of finished results. */
typedef struct ec_reduce_dst {
  char *out[2]; /* NULL: not requested */
  int64_t stride[2];
  double divisor; /* of means and variances */
} ec_reduce_dst;

typedef void (*ec_reduce_init)(ec_reduce_acc acc, int64_t k);
typedef void (*ec_reduce_step)(ec_reduce_acc acc, const ec_reduce_block *block);
typedef void (*ec_reduce_turn)(ec_reduce_acc acc, int64_t k, double count);
typedef void (*ec_reduce_finish)(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *dst);
typedef void (*ec_reduce_merge)(ec_reduce_acc acc, ec_reduce_acc later);

typedef struct ec_reduce_loops {
  ec_reduce_init init;
  ec_reduce_step step;
  ec_reduce_turn turn;  /* NULL, or called between a first pass and a second one */
  ec_reduce_step second_pass;
  ec_reduce_finish finish;
  /* NULL, or merges the accumulators of one pass over later elements of a single result. Long
   * results are then reduced in chunks, whose number depends only on the length. */
  ec_reduce_merge merge, merge_second_pass;
} ec_reduce_loops;

typedef struct ec_reduce_plan {
  ec_tensor in;           /* a copy, unaffected by an output that is also the input */
  uint32_t mask;          /* bit d: dimension d is reduced */
  bool keepdim, ordered;  /* ordered: positions count in row-major order of the input */
  size_t rank_out;
  int64_t sizes_out[EC_MAX_RANK];
  int64_t count;          /* elements per result */
  size_t reduced;         /* reduced dimensions after merging; the loops run over the last one */
  int64_t red_size[EC_MAX_RANK], red_in[EC_MAX_RANK];
} ec_reduce_plan;

/* Reads the reduced dimensions from an int list. An empty list or None means all with
 * `empty_is_all`. Fails on a dimension that is out of range or repeated. */
ec_status ec_reduce_dims(ec_call *c, ec_ints dims, bool empty_is_all, size_t rank, uint32_t *mask);

/* The first half of a plan: the shape of the result. `in` is only read. */
void ec_reduce_shape(ec_reduce_plan *p, const ec_tensor *in, uint32_t mask, bool keepdim);

/* Fails if a result would be chosen among no elements (amax, argmax, ...). */
ec_status ec_reduce_check_nonempty(ec_call *c, const ec_reduce_plan *p);

/* Resizes the output `arg` to the plan's shape. */
ec_status ec_reduce_resize(ec_call *c, const ec_reduce_plan *p, size_t arg);

/* The second half, after all outputs are resized: plans the loops and runs them. `out` has one or
 * two outputs (NULL: not requested); the input's data pointer is that of `in`. */
void ec_reduce_run(ec_reduce_plan *p, const ec_call *c, const ec_tensor *in,
                   ec_tensor *const out[2], const ec_reduce_loops *loops, double divisor);

/* Sets `p->in` to a copy of the input in another dtype (scratch memory, same layout), and returns
 * it in *in. Does nothing if the dtype is equal. */
ec_status ec_reduce_cast(ec_call *c, ec_reduce_plan *p, ec_dtype dtype, const ec_tensor **in);

/* Returns the compute dtype of a sum or product: the dtype argument, else the output's. Fails if
 * both are given and differ. */
ec_status ec_reduce_dtype(ec_call *c, size_t dtype_arg, size_t out_arg, ec_dtype *dtype);

/* Computes amin and amax over the dimensions of the mask, into tensors of the input's dtype (not
 * complex) and of its shape with 1 in those dimensions. The input must have elements. */
void ec_reduce_extremes(const ec_call *c, const ec_tensor *in, uint32_t mask, ec_tensor *low,
                        ec_tensor *high);

/* True if accumulating `in` directly has the same result as casting it to `out` first. */
bool ec_reduce_direct(ec_dtype in, ec_dtype out);

#endif
