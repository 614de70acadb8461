/* Radix sort of keys, from the lowest digit to the highest. */
#include "kernels/sort/order.h"

#include <string.h>

#include "core/template.h"

enum { DIGIT_BITS = 8, DIGITS = 64 / DIGIT_BITS, RADIX = 1 << DIGIT_BITS, INSERTION_MAX = 48 };

#define EC_TEMPLATE "kernels/sort/keys.tmpl.h"
#include "core/foreach/realb.h"
#undef EC_TEMPLATE

typedef void (*keys_fn)(ec_entry *e, int64_t n, const char *x, int64_t step, uint64_t flip);
static const keys_fn keys[EC_DTYPE_COUNT] = {EC_ROWS_REALB(order_keys)};

ec_status ec_order_new(ec_call *c, int64_t n, ec_order *o) {
  *o = (ec_order){.n = n, .plain = c->reference};
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *o->e, &o->e));
  return ec_call_scratch(c, (size_t)n, sizeof *o->spare, &o->spare);
}

void ec_order_load(ec_order *o, ec_dtype dtype, const char *x, int64_t step, bool descending) {
  keys[dtype](o->e, o->n, x, step, descending ? UINT64_MAX : 0);
}

bool ec_order_nan(ec_dtype dtype, uint64_t *key) {
  *key = dtype == EC_FLOAT64 || !ec_is_floating(dtype) ? UINT64_MAX : UINT32_MAX;
  return ec_is_floating(dtype);
}

static inline size_t digit_of(uint64_t key, size_t digit) {
  return key >> digit * DIGIT_BITS & (RADIX - 1);
}

static void insert_each(ec_entry *e, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    ec_entry v = e[i];
    int64_t j = i;
    for (; j > 0 && e[j - 1].key > v.key; j--) e[j] = e[j - 1];
    e[j] = v;
  }
}

void ec_order_sort(ec_order *o) {
  int64_t count[DIGITS][RADIX] = {0};
  if (o->n <= INSERTION_MAX && !o->plain) {
    insert_each(o->e, o->n);
    return;
  }
  for (int64_t i = 0; i < o->n; i++)
    for (size_t d = 0; d < DIGITS; d++) count[d][digit_of(o->e[i].key, d)]++;
  for (size_t d = 0; o->n && d < DIGITS; d++) {
    int64_t *start = count[d], sum = 0;
    if (start[digit_of(o->e[0].key, d)] == o->n) continue; /* all equal */
    for (size_t r = 0; r < RADIX; r++) {
      int64_t here = start[r];
      start[r] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < o->n; i++) o->spare[start[digit_of(o->e[i].key, d)]++] = o->e[i];
    ec_entry *sorted = o->spare;
    o->spare = o->e;
    o->e = sorted;
  }
}

void ec_order_select(ec_order *o, int64_t k) {
  int64_t n = o->n;
  for (size_t d = DIGITS; d-- > 0 && n > 1;) { /* keeps the entries with the k-th one's digit */
    int64_t count[RADIX] = {0}, kept = 0;
    size_t r = 0;
    for (int64_t i = 0; i < n; i++) count[digit_of(o->e[i].key, d)]++;
    for (; k >= count[r]; r++) k -= count[r];
    if (count[r] == n) continue;
    for (int64_t i = 0; i < n; i++)
      if (digit_of(o->e[i].key, d) == r) o->e[kept++] = o->e[i];
    n = kept;
  }
  o->e[0] = o->e[k]; /* all are equal to the k-th */
}
