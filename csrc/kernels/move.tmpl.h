/* Copies of elements of one size (EC_MOVE), whatever their dtype. */

/* Either side may be strided; a source step of 0 fills. */
static void EC_MOVE_NAME(move)(int64_t n, char *dst, int64_t dst_step, const char *src,
                               int64_t src_step) {
  if (src_step == 0 && dst_step == (int64_t)sizeof(EC_MOVE)) {
    EC_MOVE *d = (EC_MOVE *)(void *)dst;
    const EC_MOVE value = *(const EC_MOVE *)(const void *)src;
    for (int64_t i = 0; i < n; i++) d[i] = value;
    return;
  }
  if (src_step == 2 * (int64_t)sizeof(EC_MOVE) && dst_step == (int64_t)sizeof(EC_MOVE)) {
    EC_MOVE *d = (EC_MOVE *)(void *)dst; /* compilers vectorise constant steps */
    const EC_MOVE *s = (const EC_MOVE *)(const void *)src;
    for (int64_t i = 0; i < n; i++) d[i] = s[2 * i];
    return;
  }
  for (int64_t i = 0; i < n; i++)
    *(EC_MOVE *)(void *)(dst + i * dst_step) = *(const EC_MOVE *)(const void *)(src + i * src_step);
}

/* Side of a tile, chosen by measurement. */
enum { EC_MOVE_NAME(TILE) = sizeof(EC_MOVE) == 4 ? 16 : 8 };

/* Transposes one tile through a buffer. Each side touches a cache line once, even if rows are a
 * power of two apart and evict each other. */
static inline void EC_MOVE_NAME(transpose_tile)(char *dst, int64_t dst_row, const char *src,
                                                int64_t src_row, int64_t rows, int64_t columns) {
  EC_MOVE tile[EC_MOVE_NAME(TILE)][EC_MOVE_NAME(TILE)];
  for (int64_t c = 0; c < columns; c++) {
    const EC_MOVE *s = (const EC_MOVE *)(const void *)(src + c * src_row);
    for (int64_t r = 0; r < rows; r++) tile[c][r] = s[r];
  }
  for (int64_t r = 0; r < rows; r++) {
    EC_MOVE *d = (EC_MOVE *)(void *)(dst + r * dst_row);
    for (int64_t c = 0; c < columns; c++) d[c] = tile[c][r];
  }
}

/* dst[r][c] = src[c][r]; row steps are in bytes. */
static void EC_MOVE_NAME(transpose)(char *dst, int64_t dst_row, const char *src, int64_t src_row,
                                    int64_t rows, int64_t columns) {
  const int64_t item = (int64_t)sizeof(EC_MOVE), side = EC_MOVE_NAME(TILE);
  for (int64_t r = 0; r < rows; r += side)
    for (int64_t c = 0; c < columns; c += side) {
      const int64_t height = rows - r < side ? rows - r : side;
      const int64_t width = columns - c < side ? columns - c : side;
      char *d = dst + r * dst_row + c * item;
      const char *s = src + c * src_row + r * item;
      if (height == side && width == side) /* constant sizes, so that the loops unroll */
        EC_MOVE_NAME(transpose_tile)(d, dst_row, s, src_row, side, side);
      else
        EC_MOVE_NAME(transpose_tile)(d, dst_row, s, src_row, height, width);
    }
}

#undef EC_MOVE
#undef EC_MOVE_NAME
