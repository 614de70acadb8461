/* Evenly spaced numbers: the shared implementation of both forms of arange. */
#ifndef EC_KERNELS_CREATE_RANGE_H
#define EC_KERNELS_CREATE_RANGE_H

#include "kernels/call.h"

/* Fills the 1-d output argument `o` with start, start + step, ... below (or above) end. */
ec_status ec_arange(ec_call *c, size_t o, ec_scalar start, ec_scalar end, ec_scalar step);

#endif
