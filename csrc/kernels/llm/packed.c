/* The layout: for each 8 rows, and each group of columns, steps of 16 columns, then the scales of
 * the rows, then the sums of their integers, which only kernels on integers need. A step has the
 * first 8 columns of each row, then the other 8. Integers of 4 bits are stored plus 8: of each 32,
 * the first 16 in low halves of bytes, the others in high halves. */
#include "kernels/llm/packed.h"

#include <string.h>

#include "core/checked.h"
#include "core/simd.h"

enum {
  HALF = EC_PACKED_STEP / 2,
  COUNT = EC_PACKED_ROWS * EC_PACKED_STEP, /* integers of a step */
  PAIRS = 16,
  ZERO = 8 /* of 4 bits */
};

/* Returns the bytes of EC_PACKED_ROWS rows. */
static bool find_block(const ec_packed *p, int64_t *size) {
  const int64_t groups = p->cols / p->group, row = p->cols / 8 * p->bits + 8 * groups;
  return ec_mul_i64(row, EC_PACKED_ROWS, size);
}

bool ec_packed_size(const ec_packed *p, int64_t *size) {
  int64_t block, rows;
  return find_block(p, &block) && ec_add_i64(p->rows, EC_PACKED_ROWS - 1, &rows) &&
         ec_mul_i64(rows / EC_PACKED_ROWS, block, size) &&
         ec_add_i64(*size, EC_PACKED_HEADER, size);
}

static void unpack_step(const uint8_t *from, int bits, int8_t *out) {
  if (bits == 8) {
    memcpy(out, from, COUNT);
    return;
  }
  for (size_t i = 0; i < COUNT; i += 2 * PAIRS)
    for (size_t j = 0; j < PAIRS; j++) {
      out[i + j] = (int8_t)((from[i / 2 + j] & 15) - ZERO);
      out[i + j + PAIRS] = (int8_t)((from[i / 2 + j] >> 4) - ZERO);
    }
}

EC_CLONES static void scale_step(const int8_t *in, const float *scales, int64_t cols, float *out) {
  for (int64_t r = 0; r < EC_PACKED_ROWS; r++)
    for (int64_t i = 0; i < HALF; i++) {
      out[r * cols + i] = (float)in[r * HALF + i] * scales[r];
      out[r * cols + i + HALF] = (float)in[(r + EC_PACKED_ROWS) * HALF + i] * scales[r];
    }
}

void ec_packed_read(const ec_packed *p, int64_t row, float *out) {
  const size_t step = (size_t)(COUNT / 8 * p->bits);
  const int64_t steps = p->group / EC_PACKED_STEP;
  int64_t block = 0;
  (void)find_block(p, &block); /* the caller has checked the size */
  const uint8_t *from = p->data + row / EC_PACKED_ROWS * block;
  for (int64_t col = 0; col < p->cols; col += p->group) {
    const uint8_t *after = from + (size_t)steps * step;
    float scales[EC_PACKED_ROWS];
    int8_t values[COUNT];
    memcpy(scales, after, sizeof scales);
    for (int64_t s = 0; s < steps; s++, from += step) {
      unpack_step(from, p->bits, values);
      scale_step(values, scales, p->cols, out + col + s * EC_PACKED_STEP);
    }
    from = after + 2 * sizeof scales;
  }
}
