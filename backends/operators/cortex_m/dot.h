/* The scalar product of int8 vectors with offsets. */
#ifndef CORTEX_M_DOT_H
#define CORTEX_M_DOT_H

#include <stdint.h>

/* A vector of int8: elements at data[0], data[step], ..., to each of which `offset` is added. */
typedef struct cm_vector {
  const int8_t *data;
  int64_t step;
  int32_t offset;
} cm_vector;

/* Returns the sum of (a[i] + offset) * (b[i] + offset), which wraps at 32 bits. */
static inline int32_t cm_dot(cm_vector a, cm_vector b, int64_t n) {
  const uint32_t a_offset = (uint32_t)a.offset, b_offset = (uint32_t)b.offset;
  uint32_t sum = 0;
  if (a.step == 1 && b.step == 1) { /* the usual case, which the compiler vectorises */
    for (int64_t i = 0; i < n; i++)
      sum += ((uint32_t)a.data[i] + a_offset) * ((uint32_t)b.data[i] + b_offset);
    return (int32_t)sum;
  }
  for (int64_t i = 0; i < n; i++)
    sum += ((uint32_t)a.data[i * a.step] + a_offset) * ((uint32_t)b.data[i * b.step] + b_offset);
  return (int32_t)sum;
}

#endif
