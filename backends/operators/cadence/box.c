/* Boxes as parameters of the device's image unit: 22 numbers of 29 bits in 80 bytes, the lowest bit
 * first. They are the first sample point and the address increments of six loops, the last of which
 * is repeated, all with 16 fractional bits. */
#include "box.h"

#include <math.h>
#include <string.h>

enum { BYTES = 80, NUMBERS = 22, BITS = 29, FRACTION = 16, LOOPS = 6, INCREMENTS = 10, BOX = 5 };

static int64_t box_fixed(float x) {
  const float value = roundf(x * (1 << FRACTION));
  return value > -0x1p31f && value < 0x1p31f ? (int64_t)value : value > 0 ? INT32_MAX : INT32_MIN;
}

/* Writes the increments of an axis whose loop number `axis` goes in steps. */
static void box_increments(float step, int64_t tile, int axis, const int64_t *shape,
                           int64_t *out) {
  int64_t strides[LOOPS] = {0};
  strides[axis] = box_fixed(step);
  strides[axis + 2] = box_fixed(step * (float)tile);
  out[0] = strides[0];
  for (int i = 1; i < INCREMENTS; i++)
    out[i] = i < LOOPS ? strides[i] - strides[i - 1] * shape[i - 1] + out[i - 1] : out[i - 1];
}

static void box_pack(const int64_t *numbers, uint8_t *bytes) {
  memset(bytes, 0, BYTES);
  for (int i = 0; i < NUMBERS * BITS; i++)
    if ((uint64_t)numbers[i / BITS] >> (i % BITS) & 1)
      bytes[i / 8] = (uint8_t)(bytes[i / 8] | 1u << (i % 8));
}

/* `box`: image, left, top, right, bottom. `tiles`: samples in x and y. */
static void box_write(const float *box, int64_t count, const int64_t tiles[2], bool aligned,
                      uint8_t *bytes) {
  const int64_t shape[LOOPS] = {tiles[0], tiles[1], 1, 1, 1, count};
  int64_t numbers[NUMBERS];
  for (int axis = 0; axis < 2; axis++) {
    const float step = (box[axis + 3] - box[axis + 1]) / (float)tiles[axis];
    const float first = aligned ? box[axis + 1] - 0.5f : box[axis + 1];
    numbers[axis] = box_fixed(first + step / 2);
    box_increments(step, tiles[axis], axis, shape, numbers + 2 + axis * INCREMENTS);
  }
  box_pack(numbers, bytes);
}

uint32_t cad_roi_align_box(const cad_call *c) {
  const cad_tensor *in, *out;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "rois", CAD_FLOAT, 2, &in));
  if (in->sizes[1] != BOX)
    return EC_ARG_FAIL(c, "'rois' has %lld columns, expected %d", (long long)in->sizes[1], BOX);
  int64_t tiles[2];
  for (size_t axis = 0; axis < 2; axis++) { /* output_size_w, output_size_h */
    const int64_t size = c->args[2 - axis].as.i, ratio = c->args[3].as.i;
    if (size < 1 || size > CAD_MAX_EXTENT || ratio < 1 || ratio > 256)
      return EC_ARG_FAIL(c,
                         "the output size %lld and 'sampling_ratio' %lld, expected 1 to %d and 1 "
                         "to 256",
                         (long long)size, (long long)ratio, CAD_MAX_EXTENT);
    tiles[axis] = size * ratio;
  }
  const int64_t count = in->sizes[0], sizes[] = {count, BYTES};
  if (count > CAD_MAX_EXTENT) return EC_ARG_FAIL(c, "'rois' has %lld boxes", (long long)count);
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 5, EC_ARG_SET(EC_DTYPE_UINT8), 2, sizes, &out));
  for (int64_t i = 0; i < count; i++)
    box_write((const float *)in->data + i * BOX, count, tiles, c->args[4].as.b,
              (uint8_t *)out->data + i * BYTES);
  return EC_BACKEND_OK;
}
