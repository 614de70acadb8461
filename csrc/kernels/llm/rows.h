/* Rows of attention: the vectors of heads, stored in any dtype and read as float. */
#ifndef EC_KERNELS_LLM_ROWS_H
#define EC_KERNELS_LLM_ROWS_H

#include "kernels/cast.h"

/* Vectors of `dim` contiguous elements. A row is found by batch, head and position. */
typedef struct ec_rows {
  char *data;
  ec_dtype dtype;
  int64_t dim;
  int64_t batch, head, seq; /* strides in rows */
  const int8_t *zeros;      /* int8: a zero point and a scale for each row; else NULL */
  const float *scales;
} ec_rows;

static inline int64_t ec_rows_at(const ec_rows *r, int64_t batch, int64_t head, int64_t at) {
  return batch * r->batch + head * r->head + at * r->seq;
}

/* Returns `count` rows from `row` on as float: in place, or converted into `buffer`. */
const float *ec_rows_read(const ec_rows *r, int64_t row, int64_t count, float *buffer);

/* Writes x * scale to a row. x is changed. */
void ec_rows_write(const ec_rows *r, int64_t row, float *x, float scale);

#endif
