/* One engine for every operator that folds dimensions away.
 *
 * A plan splits the input's dimensions into kept and reduced ones, merges neighbours that lie
 * behind each other in memory and sorts them, so that whatever the layout, the loops see blocks of
 * `k` results with `n` elements each and one stride for either: contiguous elements (a row to
 * fold) or contiguous results (columns to fold side by side). Loops know dtypes, never tensors. */
#ifndef EC_KERNELS_REDUCE_REDUCE_H
#define EC_KERNELS_REDUCE_REDUCE_H

#include "kernels/call.h"

enum {
  EC_REDUCE_BLOCK = 256,   /* results that are folded side by side */
  EC_REDUCE_ACC_BYTES = 16 /* of one accumulator: double _Complex */
};

/* An integer type as wide as `type`, 8 bytes at most: what a comparison of vectors of it gives. */
#define EC_REDUCE_MASK(type)                                                                       \
  __typeof__(__builtin_choose_expr(                                                                \
      sizeof(type) == 1, (int8_t)0,                                                                \
      __builtin_choose_expr(sizeof(type) == 2, (int16_t)0,                                         \
                            __builtin_choose_expr(sizeof(type) == 4, (int32_t)0, (int64_t)0))))

/* Accumulators of one block: two arrays, what they hold is the loops' business. */
typedef struct ec_reduce_acc {
  void *a, *b;
} ec_reduce_acc;

typedef struct ec_reduce_block {
  const char *x;  /* the first element */
  int64_t k, ks;  /* results, and the stride from one to the next */
  int64_t n, ns;  /* elements of each, and their stride */
  int64_t base;   /* position of the first of them among all reduced ones, row-major */
  bool plain;     /* the reference loop is wanted */
} ec_reduce_block;

/* Where finished results go. */
typedef struct ec_reduce_dst {
  char *out[2]; /* NULL: not wanted */
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
  ec_reduce_turn turn;  /* NULL, or: between a first pass and a second one */
  ec_reduce_step second_pass;
  ec_reduce_finish finish;
  /* NULL, or: takes in what the same pass found in later elements of a single result. Long ones are
   * then folded in chunks, whose number depends on the length alone. */
  ec_reduce_merge merge, merge_second_pass;
} ec_reduce_loops;

typedef struct ec_reduce_plan {
  ec_tensor in;           /* a copy, so that an output that is the input too cannot change it */
  uint32_t mask;          /* bit d: dimension d is reduced */
  bool keepdim, ordered;  /* ordered: positions count in row-major order of the input */
  size_t rank_out;
  int64_t sizes_out[EC_MAX_RANK];
  int64_t count;          /* elements that each result stands for */
  size_t reduced;         /* dimensions after merging, the last one is the loops' */
  int64_t red_size[EC_MAX_RANK], red_in[EC_MAX_RANK];
} ec_reduce_plan;

/* The reduced dimensions of an int list; an empty list or None means all where `empty_is_all`.
 * Fails on a dimension out of range or named twice. */
ec_status ec_reduce_dims(ec_call *c, ec_ints dims, bool empty_is_all, size_t rank, uint32_t *mask);

/* First half of a plan: shape of the result. `in` is read, never kept. */
void ec_reduce_shape(ec_reduce_plan *p, const ec_tensor *in, uint32_t mask, bool keepdim);

/* Fails where a result would have to be chosen among no elements (amax, argmax, ...). */
ec_status ec_reduce_check_nonempty(ec_call *c, const ec_reduce_plan *p);

/* Resizes the output `arg` to the plan's shape. */
ec_status ec_reduce_resize(ec_call *c, const ec_reduce_plan *p, size_t arg);

/* Second half, after every output was resized, and the run itself. `out` has one or two outputs
 * (NULL: not wanted); the input's data is taken from `in`. */
void ec_reduce_run(ec_reduce_plan *p, const ec_call *c, const ec_tensor *in,
                   ec_tensor *const out[2], const ec_reduce_loops *loops, double divisor);

/* Makes `p->in` a copy of the input in another dtype (scratch memory, same layout), and returns
 * it in *in. A no-op when the dtype is right. */
ec_status ec_reduce_cast(ec_call *c, ec_reduce_plan *p, ec_dtype dtype, const ec_tensor **in);

/* The dtype that a sum or product is computed in: the dtype argument, else the output's. Fails
 * when both are there and differ. */
ec_status ec_reduce_dtype(ec_call *c, size_t dtype_arg, size_t out_arg, ec_dtype *dtype);

/* amin and amax over the dimensions of the mask, into tensors of the input's dtype (no complex one)
 * and of its shape with 1 in those dimensions. There must be elements to choose from. */
void ec_reduce_extremes(const ec_call *c, const ec_tensor *in, uint32_t mask, ec_tensor *low,
                        ec_tensor *high);

/* Whether accumulating `in` directly gives what casting it to `out` first would give. */
bool ec_reduce_direct(ec_dtype in, ec_dtype out);

#endif
