/* Patches as the rows of a matrix: [images, pixels, patch]. */
#include "rows.h"

#include "quantize.h"
#include "window.h"

typedef struct rows {
  cad_window w;
  const cad_tensor *in, *out;
  cad_patches patches;
  float *zeros; /* outside of the image, for each image or for all */
  bool shares;  /* one zero point for all images */
} rows;

static void rows_range(void *user, size_t begin, size_t end) {
  const rows *p = user;
  const int64_t pixels = p->w.axes[0].out * p->w.axes[1].out * p->w.axes[2].out;
  cad_window w = p->w;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    const int64_t pixel = p->patches.first + i;
    float *patch = p->patches.memory + i * p->patches.length;
    w.fill = p->zeros[p->shares ? 0 : pixel / pixels];
    cad_window_patch(&w, pixel, 0, patch);
    cad_store(p->out, pixel * p->patches.length, 1, p->patches.length, patch);
  }
}

/* Checks that the dtype of the image has the zero points. */
static uint32_t rows_check_zeros(const cad_call *c, int64_t count, const rows *p) {
  const cad_quantizer q = cad_quantizer_of(1, 0, p->in->dtype);
  for (int64_t i = 0; i < count && p->in->dtype != EC_DTYPE_FLOAT32; i++)
    if (!(p->zeros[i] >= q.low && p->zeros[i] <= q.high))
      return EC_ARG_FAIL(c, "'in_zero_point' is %g, beyond the dtype of 'input'",
                         (double)p->zeros[i]);
  return EC_BACKEND_OK;
}

/* Reads the zero point, argument `i`: an int, or a tensor with one element or one for an image. */
static uint32_t rows_zeros(const cad_call *c, size_t i, rows *p) {
  const cad_tensor *t;
  p->shares = true;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, 1, sizeof(float), &p->zeros));
  if (cad_is_tensor(c, i)) {
    EC_BACKEND_TRY(EC_ARG_TENSOR(c, i, "in_zero_point", EC_ARG_SET(EC_DTYPE_INT32), -1, &t));
    p->shares = ec_arg_count(t) == 1;
    if (!p->shares && (t->rank != 1 || t->sizes[0] != p->w.images))
      return EC_ARG_FAIL(c,
                         "'in_zero_point' has %lld elements, expected 1 or one for each of %lld "
                         "images",
                         (long long)ec_arg_count(t), (long long)p->w.images);
    EC_BACKEND_TRY(EC_ARG_SCRATCH(c, ec_arg_count(t), sizeof(float), &p->zeros));
    cad_load(t, 0, 1, ec_arg_count(t), 0, p->zeros);
    return rows_check_zeros(c, ec_arg_count(t), p);
  }
  int32_t zero;
  EC_BACKEND_TRY(cad_int(c, i, "in_zero_point", &zero));
  *p->zeros = (float)zero;
  return rows_check_zeros(c, 1, p);
}

/* Reads input, kernel_size, dilation, padding and stride, the arguments 0 to 4; an input without
 * height has the height 1. */
static uint32_t rows_read(const cad_call *c, size_t channel_last, rows *p) {
  cad_window *w = &p->w;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p->in));
  if (p->in->rank > 4)
    return EC_ARG_FAIL(c, "'input' has %u dimensions, expected 3 or 4", (unsigned)p->in->rank);
  EC_BACKEND_TRY(cad_window_image(c, p->in, c->args[channel_last].as.b, w));
  return cad_window_read(c, (cad_places){1, 4, 3, 2}, 2, w);
}

static uint32_t rows_run(const cad_call *c, rows *p) {
  const cad_window *w = &p->w;
  int64_t length, pixels;
  if (__builtin_mul_overflow(w->taps, w->channels, &length) ||
      __builtin_mul_overflow(w->axes[1].out, w->axes[2].out, &pixels))
    return EC_ARG_FAIL(c, "the rows are too large");
  const int64_t sizes[] = {w->images, pixels, length};
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, c->count - 1, EC_ARG_SET(p->in->dtype), 3, sizes, &p->out));
  EC_BACKEND_TRY(cad_floats(c, p->in, 0, &p->w.x));
  return cad_window_each(c, w, length, (double)length, rows_range, p, &p->patches);
}

uint32_t cad_im2row(const cad_call *c) {
  rows p = {0};
  EC_BACKEND_TRY(rows_read(c, 6, &p));
  EC_BACKEND_TRY(rows_zeros(c, 5, &p));
  EC_BACKEND_TRY(cad_window_size(c, false, NULL, &p.w));
  return rows_run(c, &p);
}

uint32_t cad_transposed_im2row(const cad_call *c) {
  rows p = {0};
  int64_t extra[CAD_SPACE] = {0};
  EC_BACKEND_TRY(rows_read(c, 7, &p));
  EC_BACKEND_TRY(cad_ints(c, 5, "output_padding", 0, 2, extra + 1));
  EC_BACKEND_TRY(rows_zeros(c, 6, &p));
  p.w.taps_first = p.w.last;
  for (size_t d = 0; d < CAD_SPACE; d++) p.w.axes[d].transposed = true;
  EC_BACKEND_TRY(cad_window_size(c, false, extra, &p.w));
  return rows_run(c, &p);
}
