/* Elementwise operators, delegated at load. */
#include <math.h>

#include "delegate_at_load/delegation.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/fuse.h"
#include "payload/schema.h"

/* Returns the form that an operand has, if the result of a pointwise call can have it, too: a
 * hostile one may have other dimensions. */
static ecx_form shared_form(ecx_delegation *b, const ec_backend_value *v,
                            const ec_backend_value *out) {
  ecx_prepare(b, v);
  return v->tensor.rank == out->tensor.rank ? ecx_best_form(b, v) : ECX_FORM_PLAIN;
}

/* Adds a node from argument 0 to the last one, in the form that argument 0 has. */
static ecx_draft_node *add_unary(ecx_delegation *b, uint8_t kind,
                                 const ec_backend_kernel_call *call) {
  const ec_backend_value *v = ecx_arg_value(call, 0);
  const ecx_form form = shared_form(b, v, ecx_arg_out(call));
  const uint32_t in = ecx_read(b, v, form);
  return ecx_draft_add(b->draft, kind, &in, 1, ecx_write(b, ecx_arg_out(call), form));
}

const char *ecx_delegate_unary(ecx_delegation *b, const ecx_operator *row,
                               const ec_backend_kernel_call *call) {
  if (b) add_unary(b, row->kind, call);
  return NULL;
}

/* XNNPACK's own is less accurate than the kernel. */
const char *ecx_delegate_tanh(ecx_delegation *b, const ecx_operator *row,
                              const ec_backend_kernel_call *call) {
#ifdef EXECUTORCH_C_TANH
  return ecx_delegate_unary(b, row, call);
#else
  (void)b, (void)row, (void)call;
  return "the accuracy of this XNNPACK";
#endif
}

const char *ecx_delegate_copy(ecx_delegation *b, const ecx_operator *row,
                              const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  if (!b) return NULL;
  ecx_prepare(b, v);
  for (ecx_form form = ECX_FORM_PLAIN; form < ECX_FORMS; form++)
    if (ecx_has_form(b, v, form)) ecx_bind(b, ecx_arg_out(call), form, ecx_read(b, v, form));
  return NULL;
}

/* ---- activations ----------------------------------------------------------------------------- */

static const char *add_clamp(ecx_delegation *b, const ec_backend_kernel_call *call, float min,
                             float max) {
  if (!(min <= max)) return "its bounds";
  if (!b) return NULL;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  const ecx_form form = shared_form(b, v, ecx_arg_out(call));
  const uint32_t in = ecx_merge_clamps(b->draft, ecx_read(b, v, form), &min, &max);
  if (ecx_loses_nan(b->draft, in) || ecx_fails_clamped(b->draft, in, min)) ecx_watch(b, in);
  const uint32_t out = ecx_write(b, ecx_arg_out(call), form);
  ecx_draft_node *n = ecx_draft_add(b->draft, ECX_KIND_Clamp, &in, 1, out);
  n->has_bounds = true;
  n->min = min;
  n->max = max;
  return NULL;
}

/* Also hardtanh: its bounds have the same places. */
const char *ecx_delegate_clamp(ecx_delegation *b, const ecx_operator *row,
                               const ec_backend_kernel_call *call) {
  (void)row;
  double min = -INFINITY, max = INFINITY;
  if (!ecx_arg_number(call, 1, &min) && !ecx_arg_is_none(call, 1)) return "its bounds";
  if (!ecx_arg_number(call, 2, &max) && !ecx_arg_is_none(call, 2)) return "its bounds";
  return add_clamp(b, call, (float)min, (float)max);
}

const char *ecx_delegate_relu(ecx_delegation *b, const ecx_operator *row,
                              const ec_backend_kernel_call *call) {
  (void)row;
  return add_clamp(b, call, 0, INFINITY);
}

const char *ecx_delegate_leaky_relu(ecx_delegation *b, const ecx_operator *row,
                                    const ec_backend_kernel_call *call) {
  double slope;
  if (!ecx_arg_number(call, 1, &slope) || !isfinite(slope) || slope == 0) return "its slope";
  if (!b) return NULL;
  ecx_draft_set_float(add_unary(b, row->kind, call), ECX_LeakyReLU_negative_slope, (float)slope);
  return NULL;
}

const char *ecx_delegate_elu(ecx_delegation *b, const ecx_operator *row,
                             const ec_backend_kernel_call *call) {
  double alpha, scale, input_scale;
  if (!ecx_arg_number(call, 1, &alpha) || !ecx_arg_number(call, 2, &scale) ||
      !ecx_arg_number(call, 3, &input_scale) || !(alpha > 0) || !isfinite(alpha) || scale != 1 ||
      input_scale != 1)
    return "its scales";
  if (b) ecx_draft_set_float(add_unary(b, row->kind, call), ECX_ELU_alpha, (float)alpha);
  return NULL;
}

const char *ecx_delegate_gelu(ecx_delegation *b, const ecx_operator *row,
                              const ec_backend_kernel_call *call) {
  const ec_backend_arg *how = &call->args[1];
  if (how->kind != EC_BACKEND_STRING || how->as.string.size != 4 || how->as.string.data[0] != 'n')
    return "its approximation";
  if (b) add_unary(b, row->kind, call);
  return NULL;
}

const char *ecx_delegate_softmax(ecx_delegation *b, const ecx_operator *row,
                                 const ec_backend_kernel_call *call) {
  const ec_backend_value *v = ecx_arg_value(call, 0);
  const int64_t dim = ecx_arg_int(call, 1);
  if (ecx_arg_bool(call, 2)) return "half_to_float";
  if (dim != -1 && dim != (int64_t)v->tensor.rank - 1) return "its dimension";
  if (!b) return NULL;
  const uint32_t in = ecx_read(b, v, ECX_FORM_PLAIN);
  ecx_draft_add(b->draft, row->kind, &in, 1, ecx_write(b, ecx_arg_out(call), ECX_FORM_PLAIN));
  return NULL;
}

/* ---- two operands ---------------------------------------------------------------------------- */

/* True if the operand can be read with channels last beside a result with them. */
static bool can_spread(const ec_backend_value *v, const ec_backend_value *out) {
  return ecx_is_constant(v) || ecx_elements(v) == 1 ||
         (v->tensor.rank == out->tensor.rank && ecx_can_be_last(v));
}

/* Chooses the form of a result of two operands: channels last if one of them has only that. */
static ecx_form choose_form(const ecx_delegation *b, const ec_backend_value *x,
                            const ec_backend_value *y, const ec_backend_value *out) {
  const bool last = ecx_has_form(b, x, ECX_FORM_LAST) || ecx_has_form(b, y, ECX_FORM_LAST);
  return last && ecx_can_be_last(out) && can_spread(x, out) && can_spread(y, out)
             ? ECX_FORM_LAST
             : ECX_FORM_PLAIN;
}

static uint32_t read_operand(ecx_delegation *b, const ec_backend_value *v,
                             const ec_backend_value *out, ecx_form form) {
  return form == ECX_FORM_LAST ? ecx_read_spread(b, v, out->tensor.rank)
                               : ecx_read(b, v, ECX_FORM_PLAIN);
}

/* True for alpha=1 in add and sub; other operators have none. */
static bool has_no_factor(const ec_backend_kernel_call *call, size_t i) {
  double alpha = 1;
  return i >= call->count - 1 || (ecx_arg_number(call, i, &alpha) && alpha == 1);
}

static void add_binary(ecx_delegation *b, uint8_t kind, const uint32_t in[2],
                       const ec_backend_value *out, ecx_form form) {
  const uint32_t x = kind == ECX_KIND_Div ? ecx_match_hardswish(b->draft, in[0], in[1]) : ECX_NONE;
  const uint32_t id = ecx_write(b, out, form);
  if (x == ECX_NONE) ecx_draft_add(b->draft, kind, in, 2, id);
  else ecx_draft_add(b->draft, ECX_KIND_Hardswish, &x, 1, id);
}

const char *ecx_delegate_binary(ecx_delegation *b, const ecx_operator *row,
                                const ec_backend_kernel_call *call) {
  const ec_backend_value *x = ecx_arg_value(call, 0), *y = ecx_arg_value(call, 1);
  if (!has_no_factor(call, 2)) return "alpha";
  if (ecx_is_constant(x) && ecx_is_constant(y)) return "constants only";
  if (!b) return NULL;
  if (!ecx_is_constant(x)) ecx_prepare(b, x);
  if (!ecx_is_constant(y)) ecx_prepare(b, y);
  const ecx_form form = choose_form(b, x, y, ecx_arg_out(call));
  const uint32_t in[2] = {read_operand(b, x, ecx_arg_out(call), form),
                          read_operand(b, y, ecx_arg_out(call), form)};
  for (unsigned i = 0; i < 2; i++)
    if (row->kind == ECX_KIND_Maximum || row->kind == ECX_KIND_Minimum) ecx_watch(b, in[i]);
  add_binary(b, row->kind, in, ecx_arg_out(call), form);
  return NULL;
}

const char *ecx_delegate_binary_scalar(ecx_delegation *b, const ecx_operator *row,
                                       const ec_backend_kernel_call *call) {
  const ec_backend_value *x = ecx_arg_value(call, 0);
  double number;
  if (!has_no_factor(call, 2)) return "alpha";
  if (!ecx_arg_number(call, 1, &number)) return "its number";
  if (!b) return NULL;
  const ecx_form form = shared_form(b, x, ecx_arg_out(call));
  const uint32_t in[2] = {ecx_read(b, x, form), ecx_number(b, (float)number)};
  add_binary(b, row->kind, in, ecx_arg_out(call), form);
  return NULL;
}

/* The exponents that eager, too, computes as products. */
const char *ecx_delegate_power(ecx_delegation *b, const ecx_operator *row,
                               const ec_backend_kernel_call *call) {
  double exponent;
  if (!ecx_arg_number(call, 1, &exponent) || (exponent != 2 && exponent != 3))
    return "its exponent";
  if (!b) return NULL;
  const ecx_form form = shared_form(b, ecx_arg_value(call, 0), ecx_arg_out(call));
  const uint32_t x = ecx_read(b, ecx_arg_value(call, 0), form);
  uint32_t in[2] = {x, x};
  if (exponent == 3) {
    const ecx_shape shape = ecx_shape_of(ecx_arg_out(call), form);
    in[0] = ecx_draft_result(b->draft, &shape);
    ecx_draft_add(b->draft, row->kind, (uint32_t[]){x, x}, 2, in[0]);
  }
  add_binary(b, row->kind, in, ecx_arg_out(call), form);
  return NULL;
}
