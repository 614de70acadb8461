/* What numbers a tensor holds: their range, and those that are not finite. */
#ifndef EC_TRACE_RANGE_H
#define EC_TRACE_RANGE_H

#include "core/tensor.h"

typedef struct ec_range {
  uint64_t nan, above, below; /* NaNs, infinities, negative infinities */
  uint64_t first;             /* element in memory that is the first such; UINT64_MAX: none */
  double low, high;           /* of the finite ones; low > high where there are none */
} ec_range;

/* Reads all of a tensor that has data. The parts of complex numbers count each; 64-bit
 * integers are rounded. */
void ec_range_of(const ec_tensor *tensor, ec_range *range);

#endif
