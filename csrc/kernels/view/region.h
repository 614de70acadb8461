/* Operators that only move elements describe which ones: a region of a tensor, with sizes, strides
 * and an offset of its own, is copied to an output or filled from elsewhere by kernels/copy.h. */
#ifndef EC_KERNELS_VIEW_REGION_H
#define EC_KERNELS_VIEW_REGION_H

#include "kernels/copy.h"

/* Elements of a tensor: strides may be 0 or negative. Whoever makes a region without elements need
 * not care for its offset. */
typedef struct ec_region {
  size_t rank;
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  int64_t offset; /* in elements */
} ec_region;

/* All of a tensor. */
ec_region ec_region_of(const ec_tensor *t);

/* Takes `length` positions of dimension `dim` from `start` on, `step` apart. */
void ec_region_slice(ec_region *r, size_t dim, int64_t start, int64_t length, int64_t step);

/* Takes one position of a dimension, which goes away. */
void ec_region_select(ec_region *r, size_t dim, int64_t index);

/* Adds a dimension in front of `dim`. The rank must be below EC_MAX_RANK. */
void ec_region_insert(ec_region *r, size_t dim, int64_t size, int64_t stride);

/* As memory of the tensor's dtype. Its data is looked up now: outputs may have been moved. */
ec_view ec_region_view(const ec_region *r, const ec_tensor *t);

/* The output argument `out` becomes the region of argument 0: dtype check, resize, copy. */
ec_status ec_region_to_out(ec_call *c, const ec_region *r, size_t out);

/* The same for item `k` of the list of outputs `out`. */
ec_status ec_region_to_item(ec_call *c, const ec_region *r, size_t out, size_t k);

/* Writes one element of the tensor's dtype all over a region of it. */
void ec_region_fill(const ec_call *c, const ec_region *r, const ec_tensor *t, const void *element);

/* Bounds of a slice as Python and eager clamp them: start in [0, size], length >= 0. The step is
 * positive, which the caller has checked. */
void ec_slice_bounds(int64_t size, int64_t *start, int64_t end, int64_t step, int64_t *length);

/* Selects, in dimension `dim`, the index that is argument `i` (negative: from the end). */
ec_status ec_region_select_arg(ec_call *c, size_t i, ec_region *r, size_t dim);

/* The diagonal of a region: its offset is argument `arg`, the two dimensions follow. */
ec_status ec_region_diagonal(ec_call *c, size_t arg, ec_region *r);

/* Sizes, strides and offset from argument `arg` on, looked up in the memory of argument 0, whatever
 * its own shape; checked to lie inside. */
ec_status ec_region_strided(ec_call *c, size_t arg, ec_region *r);

/* Fails unless argument `i` has at least one dimension: eager has no slices of 0-d tensors. */
ec_status ec_check_has_dims(ec_call *c, size_t i);

#endif
