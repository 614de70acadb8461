/* Conversions of float32 to int64 that instruction sets have. */
#ifndef EC_KERNELS_CAST_INT64_H
#define EC_KERNELS_CAST_INT64_H

#include "core/dtype.h"
#include "kernels/cast_fn.h"

/* Returns NULL if this machine has no better loop than the plain one. */
ec_cast_fn ec_cast_int64(ec_dtype dst, ec_dtype src);

#endif
