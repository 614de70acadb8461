/* Exact sums of products of int16_t. */
#ifndef ETO_DOT_H
#define ETO_DOT_H

#include "call.h"

/* `block` products fit into int32_t together: see eto_dot_block. */
static inline int64_t eto_dot(const int16_t *a, const int16_t *b, int64_t n, int64_t block) {
  int64_t total = 0;
  for (int64_t at = 0; at < n; at += block) {
    const int64_t end = n - at < block ? n : at + block;
    int32_t sum = 0;
    for (int64_t i = at; i < end; i++) sum += a[i] * b[i];
    total += sum;
  }
  return total;
}

/* The length of a block of eto_dot: int8 less a zero point is below 2 ** 9, int16 is 2 ** 15. */
static inline int64_t eto_dot_block(const eto_tensor *a, const eto_tensor *b) {
  const bool narrow_a = ec_backend_dtype_size(a->dtype) == 1,
             narrow_b = ec_backend_dtype_size(b->dtype) == 1;
  return narrow_a && narrow_b ? 4096 : narrow_a || narrow_b ? 64 : 1;
}

/* Checks the dtype of sums: int32 of int8, int48 (as int64) of int16. */
uint32_t eto_check_sums(const eto_call *c, const eto_tensor *x, const eto_tensor *out);
/* Finds the elements of an int8 or int16 tensor less its zero point, at argument `zero_point`. */
uint32_t eto_centre(const eto_call *c, const eto_tensor *t, size_t zero_point, const char *name,
                    const int16_t **out);

#endif
