/* Operators that look elements up by index tensors or masks.
 *
 * Indices and masks are copied to scratch memory, row-major, and checked there before anything is
 * written. So the checked values are the used ones, even if tensors of a hostile program overlap.
 * Offsets into tensors are in elements. */
#ifndef EC_KERNELS_INDEX_INDEX_H
#define EC_KERNELS_INDEX_INDEX_H

#include "kernels/copy.h"

/* Copies the index tensor (int32 or int64) in argument `arg` to int64 scratch. */
ec_status ec_index_copy(ec_call *c, size_t arg, const ec_tensor *t, int64_t **out);

/* Copies an index tensor of any dtype, for callers that checked it. */
ec_status ec_index_numbers(ec_call *c, const ec_tensor *t, int64_t **out);

/* Copies and checks an index tensor: each index must be in [0, size), or in [-size, size) with
 * `wrap`, which makes it positive. The error names the index, dimension `dim` and its size. */
ec_status ec_index_read(ec_call *c, size_t arg, const ec_tensor *t, size_t dim, int64_t size,
                        bool wrap, int64_t **out);

/* Checks `n` copied indices in the same way. */
ec_status ec_index_check(ec_call *c, size_t arg, int64_t *index, int64_t n, size_t dim,
                         int64_t size, bool wrap);

/* Copies a tensor's elements to scratch bytes, 1 for non-zero ones, row-major and broadcast to
 * `sizes`. `count` is the number of ones. */
ec_status ec_index_mask(ec_call *c, const ec_tensor *t, size_t rank, const int64_t *sizes,
                        uint8_t **mask, int64_t *count);

/* Computes the offsets of all positions of `sizes`, row-major, in scratch. */
ec_status ec_index_offsets(ec_call *c, size_t rank, const int64_t *sizes, const int64_t *strides,
                           int64_t **offsets);

/* `n` positions in two tensors, each with a block of elements of the same sizes. */
typedef struct ec_table {
  ec_dtype dtype;
  int64_t n;
  const int64_t *to, *from; /* offsets of the positions */
  size_t rank;              /* of a block */
  int64_t sizes[EC_MAX_RANK], to_strides[EC_MAX_RANK], from_strides[EC_MAX_RANK];
} ec_table;

/* Adds a dimension to the blocks. */
void ec_table_dim(ec_table *t, int64_t size, int64_t to_stride, int64_t from_stride);

/* Copies or adds all blocks in order, so that the last of two blocks at one position wins. Large
 * tables use the call's threads, split by the block, or by positions if they are distinct. */
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

/* The combination with an existing element. */
typedef enum ec_combine {
  EC_COMBINE_MOVE,
  EC_COMBINE_ADD,
  EC_COMBINE_MUL,
  EC_COMBINE_MAX,
  EC_COMBINE_MIN
} ec_combine;

/* Returns the loop for elements of a dtype; NULL for extremes of complex numbers. */
ec_indexed_fn ec_indexed_move(ec_dtype dtype);
ec_indexed_fn ec_indexed_combine(ec_dtype dtype, ec_combine how);

/* Writes the initial element of a combination (not of a move) that ec_indexed_combine supports. */
void ec_combine_identity(ec_dtype dtype, ec_combine how, char *to);

/* Divides each element (not bool) by a count, in memory order. */
void ec_divide_by_counts(ec_tensor *sums, const int64_t *counts);

/* Moves elements of `strided` (step in bytes) with a mask of 1 to `packed`, or the reverse. Returns
 * their number. `packed` has `most` elements, and the mask at most as many ones. */
int64_t ec_mask_pack(size_t item, int64_t n, const uint8_t *mask, char *packed, int64_t most,
                     const char *strided, int64_t step);
int64_t ec_mask_unpack(size_t item, int64_t n, const uint8_t *mask, const char *packed,
                       int64_t most, char *strided, int64_t step);

#endif
