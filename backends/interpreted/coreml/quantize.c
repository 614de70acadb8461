/* quantize and dequantize: one scale, or one for each channel. */
#include "special.h"

/* Adds scales as float32 and zero points as int64, one for each channel. */
static uint32_t add_channels(ecm_node *n, const ect_operand *scale, const ect_operand *zero,
                             int64_t *args) {
  ect_program *p = &n->g->program;
  const size_t channels = ect_element_count(scale);
  ect_tensor t = {.dtype = EC_DTYPE_FLOAT32, .rank = 1, .sizes = {(int64_t)channels}};
  float *scales = ect_add_owned(p, &t, ECT_CONSTANT, &args[1]);
  t.dtype = EC_DTYPE_INT64;
  int64_t *zeros = ect_add_owned(p, &t, ECT_CONSTANT, &args[2]);
  if (!scales || !zeros)
    return ect_refuse(n->g, EC_BACKEND_ALLOCATION_FAILED, "no memory for scales");
  for (size_t i = 0; i < channels; i++) {
    scales[i] = (float)ect_element_at(scale, i);
    zeros[i] = zero ? ecm_to_int(ect_element_at(zero, ect_element_count(zero) > 1 ? i : 0)) : 0;
  }
  return EC_BACKEND_OK;
}

/* Reads scale and zero points into arguments from the second one. */
static uint32_t read_scheme(ecm_node *n, const ect_tensor *x, int32_t quantised, int64_t *args,
                            size_t *count, bool *by_channel) {
  ect_program *p = &n->g->program;
  ect_operand scale, zero;
  bool has_scale = false, has_zero = false;
  int64_t axis = 0;
  EC_BACKEND_TRY(ecm_constant(n, "scale", &scale, &has_scale));
  EC_BACKEND_TRY(ecm_constant(n, "zero_point", &zero, &has_zero));
  if (!has_scale) return ecm_refuse(n, "no scale");
  const size_t channels = ect_element_count(&scale);
  const size_t zeros = has_zero ? ect_element_count(&zero) : 1;
  *by_channel = scale.rank == 1;
  *count = 3;
  if (*by_channel) {
    EC_BACKEND_TRY(ecm_axis(n, "axis", 0, x->rank, &axis));
    if (axis >= x->rank || (int64_t)channels != x->sizes[axis] || (zeros != 1 && zeros != channels))
      return ecm_refuse(n, "scales or zero points are not one for each channel");
    EC_BACKEND_TRY(add_channels(n, &scale, has_zero ? &zero : NULL, args));
    args[(*count)++] = ect_add_int(p, axis);
  } else {
    if (channels != 1 || zeros != 1) return ecm_refuse(n, "several scales without an axis");
    args[1] = ect_add_double(p, ect_element_at(&scale, 0));
    args[2] = ect_add_int(p, has_zero ? ecm_to_int(ect_element_at(&zero, 0)) : 0);
  }
  args[(*count)++] = ect_add_int(p, quantised == EC_DTYPE_INT8 ? -128 : 0);
  args[(*count)++] = ect_add_int(p, quantised == EC_DTYPE_INT8 ? 127 : 255);
  args[(*count)++] = ect_add_int(p, quantised);
  return EC_BACKEND_OK;
}

static uint32_t check_integers(ecm_node *n, int32_t dtype) {
  return dtype == EC_DTYPE_INT8 || dtype == EC_DTYPE_UINT8
             ? (uint32_t)EC_BACKEND_OK
             : ecm_refuse(n, "integers of another dtype than int8 and uint8");
}

uint32_t ecm_call_quantize(ecm_node *n) {
  int64_t args[8];
  ect_tensor x;
  size_t count = 0;
  bool by_channel = false;
  EC_BACKEND_TRY(check_integers(n, n->type.dtype));
  EC_BACKEND_TRY(ecm_typed(n, "input", &args[0], &x));
  EC_BACKEND_TRY(read_scheme(n, &x, n->type.dtype, args, &count, &by_channel));
  if (x.dtype != EC_DTYPE_FLOAT32) {
    const int64_t convert[] = {args[0], ect_add_bool(&n->g->program, false)};
    x.dtype = EC_DTYPE_FLOAT32;
    EC_BACKEND_TRY(ecm_step(n, "aten::_to_copy.out", convert, 2, &x, &args[0]));
  }
  const char *op = by_channel ? "quantized_decomposed::quantize_per_channel.out"
                              : "quantized_decomposed::quantize_per_tensor.out";
  return ecm_finish(n, op, args, count);
}

uint32_t ecm_call_dequantize(ecm_node *n) {
  int64_t args[8];
  ect_tensor x, t = n->type;
  size_t count = 0;
  bool by_channel = false;
  EC_BACKEND_TRY(ecm_typed(n, "input", &args[0], &x));
  EC_BACKEND_TRY(check_integers(n, x.dtype));
  EC_BACKEND_TRY(read_scheme(n, &x, x.dtype, args, &count, &by_channel));
  const char *op = by_channel ? "quantized_decomposed::dequantize_per_channel.out"
                              : "quantized_decomposed::dequantize_per_tensor.out";
  if (t.dtype == EC_DTYPE_FLOAT32) return ecm_finish(n, op, args, count);
  t.dtype = EC_DTYPE_FLOAT32;
  EC_BACKEND_TRY(ecm_step(n, op, args, count, &t, &args[0]));
  args[1] = ect_add_bool(&n->g->program, false);
  return ecm_finish(n, "aten::_to_copy.out", args, 2);
}
