/* Operators that look elements up by index tensors or masks.
 *
 * Indices and masks are copied to scratch memory, row-major, before anything is written, and each
 * index is checked there: whatever overlaps in a hostile program, what was checked is what is
 * used. Offsets into tensors are in elements. */
#ifndef EC_KERNELS_INDEX_INDEX_H
#define EC_KERNELS_INDEX_INDEX_H

#include "kernels/copy.h"

/* The numbers of an index tensor (int32 or int64) that argument `arg` holds, as int64 scratch. */
ec_status ec_index_copy(ec_call *c, size_t arg, const ec_tensor *t, int64_t **out);

/* The same of any dtype: for those that checked it. */
ec_status ec_index_numbers(ec_call *c, const ec_tensor *t, int64_t **out);

/* As ec_index_copy, checked: each must lie in [0, size), or in [-size, size) where `wrap`, which
 * makes it positive. Fails naming the index, dimension `dim` and its size. */
ec_status ec_index_read(ec_call *c, size_t arg, const ec_tensor *t, size_t dim, int64_t size,
                        bool wrap, int64_t **out);

/* The same for `n` numbers that were copied already. */
ec_status ec_index_check(ec_call *c, size_t arg, int64_t *index, int64_t n, size_t dim,
                         int64_t size, bool wrap);

/* A tensor's elements as scratch bytes, 1 where they are not zero, row-major and broadcast to
 * `sizes`; `count` is how many ones there are. */
ec_status ec_index_mask(ec_call *c, const ec_tensor *t, size_t rank, const int64_t *sizes,
                        uint8_t **mask, int64_t *count);

/* Offsets of all positions of `sizes`, row-major, in scratch. */
ec_status ec_index_offsets(ec_call *c, size_t rank, const int64_t *sizes, const int64_t *strides,
                           int64_t **offsets);

/* `n` positions in two tensors, and at each of them a block of elements of the same sizes. */
typedef struct ec_table {
  ec_dtype dtype;
  int64_t n;
  const int64_t *to, *from; /* offsets of the positions */
  size_t rank;              /* of a block */
  int64_t sizes[EC_MAX_RANK], to_strides[EC_MAX_RANK], from_strides[EC_MAX_RANK];
} ec_table;

/* Adds a dimension to the blocks. */
void ec_table_dim(ec_table *t, int64_t size, int64_t to_stride, int64_t from_stride);

/* Copies every block in order, so that the last of two at one position stays; or adds them up.
 * Large tables on the call's threads, in parts of the block or, where positions are distinct, of
 * the positions. */
typedef enum ec_table_how { EC_TABLE_MOVE, EC_TABLE_ADD, EC_TABLE_DISTINCT } ec_table_how;
void ec_table_run(const ec_call *c, const ec_table *t, char *to, const char *from,
                  ec_table_how how);

/* `dst[j * dst_step + at[j] * dst_at] = src[j * src_step + at[j] * src_at]`, all in bytes; one of
 * dst_at and src_at is 0. */
typedef struct ec_indexed {
  int64_t n;
  const int64_t *at;
  char *dst;
  const char *src;
  int64_t dst_step, dst_at, src_step, src_at;
} ec_indexed;

typedef void (*ec_indexed_fn)(const ec_indexed *loop);

/* What happens to the element that is there. */
typedef enum ec_combine {
  EC_COMBINE_MOVE,
  EC_COMBINE_ADD,
  EC_COMBINE_MUL,
  EC_COMBINE_MAX,
  EC_COMBINE_MIN
} ec_combine;

/* The loop for elements of a dtype; NULL for extremes of complex numbers. */
ec_indexed_fn ec_indexed_move(ec_dtype dtype);
ec_indexed_fn ec_indexed_combine(ec_dtype dtype, ec_combine how);

/* Writes what combining (not moving) starts from, where ec_indexed_combine has a loop. */
void ec_combine_identity(ec_dtype dtype, ec_combine how, char *to);

/* Divides each element (no bool) by a count, in memory order. */
void ec_divide_by_counts(ec_tensor *sums, const int64_t *counts);

/* Elements of `strided` (step in bytes) where the mask is 1, packed at `packed`, or the other way
 * round. Returns how many; there are `most` packed ones, and no more than that in the mask. */
int64_t ec_mask_pack(size_t item, int64_t n, const uint8_t *mask, char *packed, int64_t most,
                     const char *strided, int64_t step);
int64_t ec_mask_unpack(size_t item, int64_t n, const uint8_t *mask, const char *packed,
                       int64_t most, char *strided, int64_t step);

#endif
