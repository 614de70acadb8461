/* One call of an operator: its arguments, checked, and elements as int64_t. */
#ifndef ETO_CALL_H
#define ETO_CALL_H

#include "executorch_c/arguments.h"

enum {
  ETO_RANK = 16,
  ETO_BLOCK = 256,
  ETO_MAX_EXTENT = 1 << 24 /* of a kernel, stride or padding */
};

typedef ec_backend_tensor eto_tensor;

typedef struct eto_call {
  const ec_host *host;
  ec_host_call *call;
  ec_backend_arg *args;
} eto_call;

/* Sets of dtypes. */
#define ETO_INTEGERS                                                                               \
  (EC_ARG_SET(EC_DTYPE_UINT8) | EC_ARG_SET(EC_DTYPE_INT8) | EC_ARG_SET(EC_DTYPE_INT16) |           \
   EC_ARG_SET(EC_DTYPE_INT32) | EC_ARG_SET(EC_DTYPE_INT64) | EC_ARG_SET(EC_DTYPE_BOOL))
#define ETO_NUMBERS (ETO_INTEGERS | EC_ARG_SET(EC_DTYPE_FLOAT32))
#define ETO_ANY UINT32_MAX

/* Reads the element of a tensor of integers; 0 of a float one. */
uint32_t eto_first(const eto_call *c, size_t i, const char *name, int64_t *out);
/* Reads an int[] argument of `count` items in [least, ETO_MAX_EXTENT]. */
uint32_t eto_ints(const eto_call *c, size_t i, const char *name, int64_t least, size_t count,
                  int64_t *out);

/* Reads `n` elements from index `at` on: signed, or with their bits as unsigned numbers. */
void eto_load(const eto_tensor *t, int64_t at, int64_t n, bool is_unsigned, int64_t *out);
/* Writes the low bits of `n` numbers from index `at` on. */
void eto_store(const eto_tensor *t, int64_t at, int64_t n, const int64_t *numbers);
/* The least and the greatest number of an integer dtype. */
int64_t eto_least(int32_t dtype);
int64_t eto_most(int32_t dtype);

/* Sums and products of hostile numbers wrap around. */
static inline int64_t eto_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t eto_subtract(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t eto_multiply(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline int64_t eto_clip(int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

#endif
