/* Arguments of the fixed-point rescaling of CMSIS-NN. */
#include "requantize.h"

uint32_t cm_set_factor(const cm_call *c, const char *name, int64_t multiplier, int64_t shift,
                       cm_factor *out) {
  if (multiplier < INT32_MIN || multiplier > INT32_MAX || !cm_shift_valid(shift))
    return EC_ARG_FAIL(c, "%s multiplier %lld and shift %lld, expected an int32 and -31 to 31",
                       name, (long long)multiplier, (long long)shift);
  *out = cm_factor_of((int32_t)multiplier, shift);
  return EC_BACKEND_OK;
}

uint32_t cm_read_factor(const cm_call *c, size_t i, const char *name, cm_factor *out) {
  return cm_set_factor(c, name, c->args[i].as.i, c->args[i + 1].as.i, out);
}

uint32_t cm_check_factors(const cm_call *c, size_t i, int64_t count) {
  EC_BACKEND_TRY(cm_check_vector(c, i, "requantize_multipliers", EC_DTYPE_INT32, count));
  EC_BACKEND_TRY(cm_check_vector(c, i + 1, "requantize_shifts", EC_DTYPE_INT32, count));
  const int32_t *shifts = cm_tensor(c, i + 1)->data;
  for (int64_t k = 0; k < count; k++)
    if (!cm_shift_valid(shifts[k]))
      return EC_ARG_FAIL(c, "'requantize_shifts' has %d for channel %lld, expected -31 to 31",
                         shifts[k], (long long)k);
  return EC_BACKEND_OK;
}
