/* Overflow-checked arithmetic for every size product. True means the result fits. */
#ifndef EC_CORE_CHECKED_H
#define EC_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ec_add_size(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

static inline bool ec_mul_size(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

static inline bool ec_add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

static inline bool ec_mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

/* True if [offset, offset + size) lies inside [0, total). */
static inline bool ec_in_range(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

static inline int64_t ec_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ec_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
