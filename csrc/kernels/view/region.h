/* Operators that only move elements describe them as a region of a tensor with its own sizes,
 * strides and offset. kernels/copy.h copies it to an output or fills it. */
#ifndef EC_KERNELS_VIEW_REGION_H
#define EC_KERNELS_VIEW_REGION_H

#include "kernels/copy.h"

/* Elements of a tensor. Strides may be 0 or negative. The offset of an empty region is
 * irrelevant. */
typedef struct ec_region {
  size_t rank;
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  int64_t offset; /* in elements */
} ec_region;

/* Returns all of a tensor. */
ec_region ec_region_of(const ec_tensor *t);

/* Narrows dimension `dim` to `length` positions from `start` on, `step` apart. */
void ec_region_slice(ec_region *r, size_t dim, int64_t start, int64_t length, int64_t step);

/* Selects one position of a dimension and removes the dimension. */
void ec_region_select(ec_region *r, size_t dim, int64_t index);

/* Inserts a dimension before `dim`. The rank must be below EC_MAX_RANK. */
void ec_region_insert(ec_region *r, size_t dim, int64_t size, int64_t stride);

/* Returns the memory of the tensor's dtype. Its data pointer is read now: outputs may have
 * moved. */
ec_view ec_region_view(const ec_region *r, const ec_tensor *t);

/* Sets the output argument `out` to the region of argument 0: dtype check, resize, copy. */
ec_status ec_region_to_out(ec_call *c, const ec_region *r, size_t out);

/* The same for item `k` of the list of outputs `out`. */
ec_status ec_region_to_item(ec_call *c, const ec_region *r, size_t out, size_t k);

/* Writes one element of the tensor's dtype to a whole region. */
void ec_region_fill(const ec_call *c, const ec_region *r, const ec_tensor *t, const void *element);

/* Clamps the bounds of a slice like Python and eager: start in [0, size], length >= 0. The caller
 * has checked that the step is positive. */
void ec_slice_bounds(int64_t size, int64_t *start, int64_t end, int64_t step, int64_t *length);

/* Selects, in dimension `dim`, the index in argument `i` (negative: from the end). */
ec_status ec_region_select_arg(ec_call *c, size_t i, ec_region *r, size_t dim);

/* Takes the diagonal of a region: argument `arg` is its offset, the two dimensions follow. */
ec_status ec_region_diagonal(ec_call *c, size_t arg, ec_region *r);

/* Reads sizes, strides and offset from argument `arg` on, relative to the memory of argument 0,
 * whatever its shape. Checks that they lie inside. */
ec_status ec_region_strided(ec_call *c, size_t arg, ec_region *r);

/* Fails unless argument `i` has at least one dimension: eager refuses to slice 0-d tensors. */
ec_status ec_check_has_dims(ec_call *c, size_t i);

#endif
