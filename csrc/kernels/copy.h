/* Copies between any dtypes and any layouts: the one engine behind clone, to, permute, expand,
 * cat and every operator whose operands or outputs have another dtype than it computes in. */
#ifndef EC_KERNELS_COPY_H
#define EC_KERNELS_COPY_H

#include "kernels/iterate.h"

/* Converts n elements; steps in bytes, a source step of 0 repeats one element. */
typedef void (*ec_cast_fn)(int64_t n, char *dst, int64_t dst_step, const char *src,
                           int64_t src_step);

/* The conversion between two dtypes of dtype.def; between equal ones it moves the bytes. Floating
 * point to integer as core/convert.h, complex to real takes the real part, anything to bool asks
 * for non-zero. */
ec_cast_fn ec_cast(ec_dtype dst, ec_dtype src);

/* A number as one element of `dtype`, converted as ec_cast converts an int64, float64 or bool:
 * integers wrap. `element` has room for 16 bytes. */
void ec_cast_scalar(ec_dtype dtype, ec_scalar s, void *element);

/* Moves n elements of `item` bytes; steps in bytes, a source step of 0 fills. */
void ec_move(size_t item, int64_t n, char *dst, int64_t dst_step, const char *src,
             int64_t src_step);

/* Part of a tensor's memory, seen with other sizes and strides (in elements; any, 0 too). */
typedef struct ec_view {
  char *data;
  ec_dtype dtype;
  size_t rank;
  int64_t sizes[EC_MAX_RANK];
  int64_t strides[EC_MAX_RANK];
} ec_view;

ec_view ec_view_of(const ec_tensor *t);

/* Copies src, broadcast to dst's sizes, with conversion; a large one on the call's threads. The
 * caller has checked that it broadcasts (ec_broadcasts_to) and that both views lie inside their
 * memory. They are the same memory or do not overlap. */
void ec_copy_view(const ec_call *c, const ec_view *dst, const ec_view *src);

/* Tensors: as ec_copy_view. */
void ec_copy_cast(const ec_call *c, ec_tensor *dst, const ec_tensor *src);

/* Writes one element (of the target's dtype) everywhere. */
void ec_fill_view(const ec_call *c, const ec_view *to, const void *element);
void ec_fill_tensor(const ec_call *c, ec_tensor *t, const void *element);

/* A tensor's elements in row-major order and a dtype: its own memory, or scratch. */
ec_status ec_call_packed(ec_call *c, const ec_tensor *t, ec_dtype dtype, void **out);

#endif
