/* Loops that add to existing elements: integers wrap around, bools are or-ed. */
#if EC_IS_FLOAT || EC_IS_COMPLEX
#define EC_PLUS(x, y) EC_STORE(EC_LOAD(x) + EC_LOAD(y))
#elif EC_IS_BOOL
#define EC_PLUS(x, y) EC_STORE(EC_LOAD(x) | EC_LOAD(y))
#else
#define EC_PLUS(x, y) ((EC_T)((uint64_t)(x) + (uint64_t)(y)))
#endif

static void EC_FN(add_table)(int64_t positions, int64_t n, char *to, const int64_t *to_at,
                             int64_t to_step, const char *from, const int64_t *from_at,
                             int64_t from_step) {
  for (int64_t p = 0; p < positions; p++) {
    EC_T *d = (EC_T *)to + to_at[p];
    const EC_T *s = (const EC_T *)from + from_at[p];
    for (int64_t i = 0; i < n; i++)
      d[i * to_step] = EC_PLUS(d[i * to_step], s[i * from_step]);
  }
}

#undef EC_PLUS
