/* Loops that only move elements, included once per element size. */
static void EC_FN(move_table)(int64_t positions, int64_t n, char *to, const int64_t *to_at,
                              int64_t to_step, const char *from, const int64_t *from_at,
                              int64_t from_step) {
  EC_T *d = (EC_T *)to;
  const EC_T *s = (const EC_T *)from;
  for (int64_t p = 0; p < positions; p++)
    for (int64_t i = 0; i < n; i++) d[to_at[p] + i * to_step] = s[from_at[p] + i * from_step];
}

static void EC_FN(move_indexed)(const ec_indexed *loop) {
  const int64_t *at = loop->at;
  char *dst = loop->dst;
  const char *src = loop->src;
  int64_t dst_at = loop->dst_at, src_at = loop->src_at;
  for (int64_t j = 0; j < loop->n; j++) {
    *(EC_T *)(dst + at[j] * dst_at) = *(const EC_T *)(src + at[j] * src_at);
    dst += loop->dst_step;
    src += loop->src_step;
  }
}

/* Packs or unpacks without an unpredictable branch on the mask: every element is copied to or from
 * the next packed one, and only elements of the mask advance. `most` is the number of packed
 * elements left. */
static int64_t EC_FN(pack)(int64_t n, const uint8_t *mask, char *packed, int64_t most,
                           const char *strided, int64_t step) {
  EC_T *p = (EC_T *)packed;
  int64_t k = 0;
  for (int64_t i = 0; i < n && k < most; i++) {
    p[k] = *(const EC_T *)(strided + i * step);
    k += mask[i];
  }
  return k;
}

static int64_t EC_FN(unpack)(int64_t n, const uint8_t *mask, const char *packed, int64_t most,
                             char *strided, int64_t step) {
  const EC_T *p = (const EC_T *)packed;
  int64_t k = 0;
  for (int64_t i = 0; i < n && k < most; i++) {
    EC_T *at = (EC_T *)(strided + i * step);
    const EC_T both[2] = {*at, p[k]};
    *at = both[mask[i]];
    k += mask[i];
  }
  return k;
}
