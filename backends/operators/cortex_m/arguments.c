/* Arguments of an operator: checks, and tensors as loops address them. */
#include "arguments.h"

enum { MAX_EXTENT = 1 << 20 /* of a kernel size, stride, padding or dilation */ };

uint32_t cm_check_vector(const cm_call *c, size_t i, const char *name, int32_t dtype,
                         int64_t count) {
  EC_BACKEND_TRY(cm_check(c, i, name, dtype, -1));
  return EC_ARG_COUNT(c, cm_tensor(c, i), name, count);
}

uint32_t cm_int32(const cm_call *c, size_t i, const char *name, int32_t *out) {
  const int64_t value = c->args[i].as.i;
  if (value < INT32_MIN || value > INT32_MAX)
    return EC_ARG_FAIL(c, "'%s' is %lld, expected an int32", name, (long long)value);
  *out = (int32_t)value;
  return EC_BACKEND_OK;
}

uint32_t cm_pair(const cm_call *c, size_t i, const char *name, int64_t least, bool single,
                 int64_t out[2]) {
  return EC_ARG_INTS(c, i, out, name, 2, least, MAX_EXTENT, single);
}

cm_image cm_image_of(const ec_backend_tensor *t, bool nhwc) {
  const size_t c = nhwc ? 3 : 1, h = nhwc ? 1 : 2, w = nhwc ? 2 : 3;
  return (cm_image){.data = t->data, .n = t->sizes[0], .c = t->sizes[c], .h = t->sizes[h],
                    .w = t->sizes[w], .by_n = t->strides[0], .by_c = t->strides[c],
                    .by_h = t->strides[h], .by_w = t->strides[w]};
}

uint32_t cm_resize_image(const cm_call *c, size_t i, bool nhwc, cm_image *image) {
  const int64_t nchw_sizes[] = {image->n, image->c, image->h, image->w};
  const int64_t nhwc_sizes[] = {image->n, image->h, image->w, image->c};
  EC_BACKEND_TRY(cm_check(c, i, "out", EC_DTYPE_INT8, 4));
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[i], 4, nhwc ? nhwc_sizes : nchw_sizes));
  *image = cm_image_of(cm_tensor(c, i), nhwc);
  return EC_BACKEND_OK;
}
