/* The conversions of the table in cast.c that x86 has instructions for. */
#ifndef EC_KERNELS_CAST_HALF_H
#define EC_KERNELS_CAST_HALF_H

#include "kernels/copy.h"

/* NULL where the machine or the pair of dtypes has none. */
ec_cast_fn ec_cast_half(ec_dtype dst, ec_dtype src);

#endif
