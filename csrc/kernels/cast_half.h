/* Conversions of the table in cast.c that x86 has instructions for. */
#ifndef EC_KERNELS_CAST_HALF_H
#define EC_KERNELS_CAST_HALF_H

#include "core/dtype.h"
#include "kernels/cast_fn.h"

/* Returns NULL if the machine has no instruction for the pair of dtypes. */
ec_cast_fn ec_cast_half(ec_dtype dst, ec_dtype src);

#endif
