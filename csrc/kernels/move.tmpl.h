/* Moving elements of one size (EC_MOVE) without looking at them. */

/* Strided in either side; a source step of 0 fills. */
static void EC_MOVE_NAME(move)(int64_t n, char *dst, int64_t dst_step, const char *src,
                               int64_t src_step) {
  if (src_step == 0 && dst_step == (int64_t)sizeof(EC_MOVE)) {
    EC_MOVE *d = (EC_MOVE *)(void *)dst;
    const EC_MOVE value = *(const EC_MOVE *)(const void *)src;
    for (int64_t i = 0; i < n; i++) d[i] = value;
    return;
  }
  for (int64_t i = 0; i < n; i++)
    *(EC_MOVE *)(void *)(dst + i * dst_step) = *(const EC_MOVE *)(const void *)(src + i * src_step);
}

/* dst[r][c] = src[c][r], rows apart by bytes. */
static void EC_MOVE_NAME(transpose)(char *dst, int64_t dst_row, const char *src, int64_t src_row,
                                    int64_t rows, int64_t columns) {
  for (int64_t r0 = 0; r0 < rows; r0 += TILE)
    for (int64_t c0 = 0; c0 < columns; c0 += TILE) {
      int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows;
      int64_t c1 = c0 + TILE < columns ? c0 + TILE : columns;
      for (int64_t r = r0; r < r1; r++) {
        EC_MOVE *d = (EC_MOVE *)(void *)(dst + r * dst_row);
        const char *s = src + r * (int64_t)sizeof(EC_MOVE);
        for (int64_t c = c0; c < c1; c++) d[c] = *(const EC_MOVE *)(const void *)(s + c * src_row);
      }
    }
}

#undef EC_MOVE
#undef EC_MOVE_NAME
