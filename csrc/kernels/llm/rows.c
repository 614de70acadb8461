/* Conversions of rows. */
#include "kernels/llm/rows.h"

#include "core/simd.h"

EC_CLONES static void dequantize_rows(const int8_t *in, int64_t rows, int64_t n,
                                      const int8_t *zeros, const float *scales,
                                      float *restrict out) {
  for (int64_t r = 0; r < rows; r++, in += n, out += n) {
    const int32_t zero = zeros[r];
    const float scale = scales[r];
    for (int64_t i = 0; i < n; i++) out[i] = (float)(in[i] - zero) * scale;
  }
}

EC_CLONES static void scale_row(float *x, int64_t n, float scale) {
  for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

const float *ec_rows_read(const ec_rows *r, int64_t row, int64_t count, float *buffer) {
  const int64_t item = (int64_t)ec_dtype_size(r->dtype);
  const char *from = r->data + row * r->dim * item;
  if (r->dtype == EC_FLOAT32) return (const float *)from;
  if (r->zeros)
    dequantize_rows((const int8_t *)from, count, r->dim, r->zeros + row, r->scales + row, buffer);
  else
    ec_cast(EC_FLOAT32, r->dtype)(count * r->dim, (char *)buffer, sizeof *buffer, from, item);
  return buffer;
}

void ec_rows_write(const ec_rows *r, int64_t row, float *x, float scale) {
  const int64_t item = (int64_t)ec_dtype_size(r->dtype);
  scale_row(x, r->dim, scale);
  ec_cast(r->dtype, EC_FLOAT32)(r->dim, r->data + row * r->dim * item, item, (const char *)x,
                                sizeof *x);
}
