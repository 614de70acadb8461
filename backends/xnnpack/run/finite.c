/* Looks for infinity and NaN: runs of kernel calls read all inputs and outputs in each call. */
#include "run/finite.h"

#include <stdatomic.h>
#include <stdint.h>
#include <xnnpack.h>

enum {
  LANES = 64,      /* sums that are kept apart: four vectors of 512 bits */
  BLOCK = 1024,    /* floats between two looks at the sums */
  PART = 16384,    /* floats of a task */
  SHARED = 1 << 17 /* floats that are worth a second thread */
};

/* Sets the highest bit of each float that is not finite: only the largest exponent carries. */
static inline uint32_t mark(uint32_t bits) { return (bits & 0x7fffffffu) + 0x00800000u; }

__attribute__((always_inline)) static inline bool scan_floats(const uint32_t *bits, size_t count) {
  uint32_t sums[LANES] = {0};
  uint32_t all = 0;
  size_t i = 0;
  while (count - i >= LANES) {
    const size_t end = i + (count - i < BLOCK ? (count - i) / LANES * LANES : (size_t)BLOCK);
    for (; i < end; i += LANES)
      for (size_t k = 0; k < LANES; k++) sums[k] |= mark(bits[i + k]);
    for (size_t k = 0; k < LANES; k++) all |= sums[k];
    if (all >> 31) return true;
  }
  for (; i < count; i++) all |= mark(bits[i]);
  return all >> 31;
}

static bool scan_any(const uint32_t *bits, size_t count) { return scan_floats(bits, count); }

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,prefer-vector-width=512"))) static bool
scan_512(const uint32_t *bits, size_t count) {
  return scan_floats(bits, count);
}

static bool scan_part(const uint32_t *bits, size_t count) {
  return __builtin_cpu_supports("avx512f") ? scan_512(bits, count) : scan_any(bits, count);
}
#else
static bool scan_part(const uint32_t *bits, size_t count) { return scan_any(bits, count); }
#endif

typedef struct search {
  const uint32_t *bits;
  atomic_bool is_special;
} search;

static void run_part(void *user, size_t from, size_t count) {
  search *s = user;
  if (!atomic_load_explicit(&s->is_special, memory_order_relaxed) &&
      scan_part(s->bits + from, count))
    atomic_store_explicit(&s->is_special, true, memory_order_relaxed);
}

bool ecx_has_nonfinite(const void *floats, size_t count, void *pool) {
  if (!pool || count < SHARED) return scan_part(floats, count);
  search s = {.bits = floats};
  pthreadpool_parallelize_1d_tile_1d(pool, run_part, &s, count, PART, 0);
  return atomic_load_explicit(&s.is_special, memory_order_relaxed);
}
