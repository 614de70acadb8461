/* The range of a tensor's numbers, and the count of non-finite ones. */
#ifndef EC_TRACE_RANGE_H
#define EC_TRACE_RANGE_H

#include "core/tensor.h"

typedef struct ec_range {
  uint64_t nan, above, below; /* NaNs, infinities, negative infinities */
  uint64_t first;             /* index in memory of the first of them; UINT64_MAX: none */
  double low, high;           /* of the finite ones; low > high if there are none */
} ec_range;

/* Reads all elements of a tensor with data. Real and imaginary parts count separately; 64-bit
 * integers are rounded. */
void ec_range_of(const ec_tensor *tensor, ec_range *range);

#endif
