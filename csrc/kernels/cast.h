/* Conversions between any two dtypes. */
#ifndef EC_KERNELS_CAST_H
#define EC_KERNELS_CAST_H

#include "core/dtype.h"
#include "kernels/cast_fn.h"

/* The conversion between two dtypes of dtype.def; between equal ones it moves the bytes. Floating
 * point to integer as core/convert.h, complex to real takes the real part, anything to bool asks
 * for non-zero. */
ec_cast_fn ec_cast(ec_dtype dst, ec_dtype src);

#endif
