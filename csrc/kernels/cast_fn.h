/* A conversion between two dtypes. */
#ifndef EC_KERNELS_CAST_FN_H
#define EC_KERNELS_CAST_FN_H

#include <stdint.h>

/* Converts n elements; steps in bytes, a source step of 0 repeats one element. */
typedef void (*ec_cast_fn)(int64_t n, char *dst, int64_t dst_step, const char *src,
                           int64_t src_step);

#endif
