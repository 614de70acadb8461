/* Parameters of quantisation. */
#include "quantize.h"

static const float below_2_31 = 2147483520.0f;

cad_quantizer cad_quantizer_of(double inverse, int32_t zero, int32_t dtype) {
  static const struct {
    int32_t dtype;
    float low, high;
  } ranges[] = {{EC_DTYPE_UINT8, 0, UINT8_MAX},
                {EC_DTYPE_INT8, INT8_MIN, INT8_MAX},
                {EC_DTYPE_UINT16, 0, UINT16_MAX},
                {EC_DTYPE_INT16, INT16_MIN, INT16_MAX}};
  cad_quantizer q = {(float)inverse, (float)zero, (float)INT32_MIN, below_2_31};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (ranges[i].dtype == dtype) {
      q.low = ranges[i].low;
      q.high = ranges[i].high;
    }
  return q;
}

uint32_t cad_read_factor(const cad_call *c, size_t i, double *factor) {
  int32_t multiplier, shift;
  EC_BACKEND_TRY(cad_int(c, i, "out_multiplier", &multiplier));
  EC_BACKEND_TRY(cad_int(c, i + 1, "out_shift", &shift));
  if (!multiplier || shift < -31 || shift > 31)
    return EC_ARG_FAIL(c,
                       "'out_multiplier' is %d and 'out_shift' %d, expected a number other than 0 "
                       "and -31 to 31",
                       multiplier, shift);
  *factor = 1.0 / (1.0 / ldexp((double)multiplier, shift - 31));
  return EC_BACKEND_OK;
}
