/* Matrices of 4 or 8 bit integers with a scale for each group of a row, as torchao packs them for
 * products with vectors (its "universal" layout). */
#ifndef EC_KERNELS_LLM_PACKED_H
#define EC_KERNELS_LLM_PACKED_H

#include "kernels/call.h"

typedef struct ec_packed {
  const uint8_t *data; /* after the header */
  int64_t rows, cols, group;
  int bits;
} ec_packed;

enum {
  EC_PACKED_ROWS = 8,  /* packed together */
  EC_PACKED_STEP = 16, /* columns packed together: a divisor of a group */
  EC_PACKED_HEADER = 64
};

/* Computes the bytes of a matrix with its header; false on overflow. */
bool ec_packed_size(const ec_packed *p, int64_t *size);

/* Writes EC_PACKED_ROWS x cols numbers of the rows from `row` (a multiple of EC_PACKED_ROWS) on. */
void ec_packed_read(const ec_packed *p, int64_t row, float *out);

#endif
