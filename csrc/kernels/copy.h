/* Copies between any dtypes and layouts. They implement clone, to, permute, expand and cat, and
 * convert operands and outputs whose dtype differs from the compute dtype. */
#ifndef EC_KERNELS_COPY_H
#define EC_KERNELS_COPY_H

#include "kernels/cast.h"
#include "kernels/iterate.h"

/* A number as one element of `dtype`, converted as ec_cast converts an int64, float64 or bool:
 * integers wrap. `element` has room for 16 bytes. */
void ec_cast_scalar(ec_dtype dtype, ec_scalar s, void *element);

/* Moves n elements of `item` bytes. Steps are in bytes; a source step of 0 fills. */
void ec_move(size_t item, int64_t n, char *dst, int64_t dst_step, const char *src,
             int64_t src_step);

/* Part of a tensor's memory with other sizes and strides (in elements; any, 0 included). */
typedef struct ec_view {
  char *data;
  ec_dtype dtype;
  size_t rank;
  int64_t sizes[EC_MAX_RANK];
  int64_t strides[EC_MAX_RANK];
} ec_view;

ec_view ec_view_of(const ec_tensor *t);

/* Copies src, broadcast to dst's sizes, with conversion; large copies use the call's threads. The
 * caller has checked that src broadcasts (ec_broadcasts_to) and that both views lie inside their
 * memory. They are the same memory or do not overlap. */
void ec_copy_view(const ec_call *c, const ec_view *dst, const ec_view *src);

/* The same for a view that is the whole of an output of the call, or a part of one that other calls
 * of this function complete: recorded (kernels/record.h). */
void ec_copy_to_out(const ec_call *c, const ec_view *dst, const ec_view *src);

/* The same for tensors, not recorded. */
void ec_copy_cast(const ec_call *c, ec_tensor *dst, const ec_tensor *src);

/* Writes one element (of the target's dtype) everywhere. */
void ec_fill_view(const ec_call *c, const ec_view *to, const void *element);
void ec_fill_tensor(const ec_call *c, ec_tensor *t, const void *element);

/* Returns a tensor's elements in row-major order and a given dtype: its own memory, or scratch. */
ec_status ec_call_packed(ec_call *c, const ec_tensor *t, ec_dtype dtype, void **out);

#endif
