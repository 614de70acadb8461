/* Keys: unsigned numbers in the order of the values. */
#if EC_IS_FLOAT
static inline uint64_t EC_FN(order_key)(EC_C v) {
  /* float16 and bfloat16 are read as float32: digits that are zero in all keys cost nothing. */
  bool wide = sizeof v == 8;
  uint64_t sign = wide ? UINT64_C(1) << 63 : UINT64_C(1) << 31, all = sign | (sign - 1);
  uint64_t bits = 0;
  if (v != v) return all;
  if (v != 0) memcpy(&bits, &v, sizeof v); /* little-endian: the low half of a float32 */
  return bits & sign ? ~bits & all : bits | sign;
}
#else
static inline uint64_t EC_FN(order_key)(EC_C v) { return (uint64_t)v - (uint64_t)EC_LOWEST; }
#endif

static void EC_FN(order_keys)(ec_entry *e, int64_t n, const char *x, int64_t step, uint64_t flip) {
  for (int64_t i = 0; i < n; i++) {
    e[i].key = EC_FN(order_key)(EC_LOAD(*(const EC_T *)(x + i * step))) ^ flip;
    e[i].at = i;
  }
}
