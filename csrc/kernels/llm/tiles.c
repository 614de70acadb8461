/* Operators that only move elements: fallback and tile_crop. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/copy.h"

ec_status ec_op_llama_fallback_out(ec_call *c) {
  const ec_tensor *input = ec_arg_tensor(c, 0);
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  EC_TRY(ec_call_resize(c, 1, input->rank, input->sizes));
  ec_copy_cast(c, ec_arg_tensor(c, 1), input);
  return EC_OK;
}

/* Views an image (channels, height, width) and its tiles (tiles, channels, size, size) as tensors
 * of (rows of tiles, tiles in a row, channels, size, size). */
static void view_tiles(const ec_tensor *input, const ec_tensor *out, int64_t size, ec_view *from,
                       ec_view *to) {
  const int64_t across = input->sizes[2] / size;
  const int64_t sizes[] = {input->sizes[1] / size, across, input->sizes[0], size, size};
  const int64_t *s = input->strides, *t = out->strides;
  const int64_t steps[] = {size * s[1], size * s[2], s[0], s[1], s[2]};
  const int64_t to_steps[] = {across * t[0], t[0], t[1], t[2], t[3]};
  *from = ec_view_of(input);
  *to = ec_view_of(out);
  from->rank = to->rank = sizeof sizes / sizeof *sizes;
  for (size_t d = 0; d < from->rank; d++) {
    from->sizes[d] = to->sizes[d] = sizes[d];
    from->strides[d] = steps[d];
    to->strides[d] = to_steps[d];
  }
}

ec_status ec_op_tile_crop_out(ec_call *c) {
  enum { INPUT, SIZE, OUT };
  const ec_tensor *input = ec_arg_tensor(c, INPUT);
  const int64_t size = ec_arg_int(c, SIZE);
  char text[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_rank(c, INPUT, 3, 3));
  EC_TRY(ec_call_check_same_dtype(c, OUT, INPUT));
  if (size < 1) return ec_call_fail(c, SIZE, "%" PRId64 ", expected 1 or more", size);
  if (input->sizes[1] % size || input->sizes[2] % size)
    return ec_call_fail(c, INPUT, "shape %s, expected a height and width divisible by %" PRId64,
                        ec_shape_text(input->sizes, 3, text, sizeof text), size);
  int64_t sizes[] = {0, input->sizes[0], size, size};
  if (!ec_mul_i64(input->sizes[1] / size, input->sizes[2] / size, &sizes[0]))
    return ec_call_fail(c, INPUT, "shape %s has too many tiles of %" PRId64,
                        ec_shape_text(input->sizes, 3, text, sizeof text), size);
  EC_TRY(ec_call_resize(c, OUT, 4, sizes));
  if (!ec_arg_tensor(c, OUT)->numel) return EC_OK;
  ec_view from, to;
  view_tiles(input, ec_arg_tensor(c, OUT), size, &from, &to);
  ec_copy_view(c, &to, &from);
  return EC_OK;
}
