/* Operators that quantise and dequantise, delegated at load. */
#include "delegate_at_load/integers.h"

#include <math.h>

#include "call.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/requantize.h"
#include "payload/schema.h"

enum { INT8 = 1, FLOAT32 = 6, LOWEST = -128, HIGHEST = 127 };

static bool is_of(const ec_backend_value *v, int32_t dtype) { return v->tensor.dtype == dtype; }

static bool is_like(const ec_backend_value *v, const ec_backend_value *out) {
  return ecx_has_shape(out, v->tensor.rank, v->tensor.sizes);
}

/* Reads a scale and a zero point, which are arguments 1 and 2. */
static const char *read_coding(const ec_backend_kernel_call *call, ecx_coding *out) {
  double scale = 0;
  const int64_t zero = ecx_arg_int(call, 2);
  *out = (ecx_coding){.dtype = ECX_qint8, .zero_point = (int32_t)zero};
  ecx_arg_number(call, 1, &scale);
  out->scale = (float)scale;
  if (!(out->scale > 0) || !isnormal(out->scale)) return "its scale";
  return zero < LOWEST || zero > HIGHEST ? "its zero point" : NULL;
}

/* True for a range that dynamic quantisation has: of 255 or 256 codes. */
static bool is_wide_range(const ec_backend_kernel_call *call, size_t lowest) {
  const int64_t least = ecx_arg_int(call, lowest);
  return (least == LOWEST || least == LOWEST + 1) && ecx_arg_int(call, lowest + 1) == HIGHEST;
}

static bool is_full_range(const ec_backend_kernel_call *call, size_t lowest) {
  return ecx_arg_int(call, lowest) == LOWEST && ecx_arg_int(call, lowest + 1) == HIGHEST;
}

/* ---- known scales ---------------------------------------------------------------------------- */

const char *ecx_delegate_quantize(ecx_delegation *b, const ecx_operator *row,
                                  const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  ecx_coding coding;
  const char *reason = read_coding(call, &coding);
  if (!is_of(v, FLOAT32) || !is_of(out, INT8)) return "its dtype";
  if (!is_full_range(call, 3)) return "its range";
  if (!is_like(v, out)) return "its shape";
  if (reason || !b) return reason;
  ecx_prepare(b, v);
  const ecx_form form = ecx_best_form(b, v);
  ecx_bind(b, out, form, ecx_quantize(b, ecx_read(b, v, form), &coding));
  return NULL;
}

/* Makes an input, whose coding its first reader says. */
static void prepare_integers(ecx_delegation *b, const ec_backend_value *v,
                             const ecx_coding *coding) {
  while (v->same) v = v->same;
  const ecx_form form = ecx_memory_form(v);
  const uint32_t position = b->entries[v->number].position;
  if (position == ECX_NONE || ecx_has_form(b, v, form)) return;
  const ecx_shape shape = ecx_shape_of(v, form);
  const uint32_t id = ecx_draft_input(b->draft, &shape, position);
  ecx_bind(b, v, form, id);
  if (!b->draft->failed) b->draft->values[id].coding = *coding;
}

const char *ecx_delegate_dequantize(ecx_delegation *b, const ecx_operator *row,
                                    const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  ecx_coding coding;
  const char *reason = read_coding(call, &coding);
  if (!is_of(v, INT8) || !is_of(out, FLOAT32)) return "its dtype";
  if (ecx_is_constant(v)) return "constants only";
  if (!is_like(v, out)) return "its shape";
  if (reason || !b) return reason;
  prepare_integers(b, v, &coding);
  const uint32_t id = ecx_read(b, v, ecx_has_form(b, v, ECX_FORM_LAST) ? ECX_FORM_LAST
                                                                       : ECX_FORM_PLAIN);
  if (b->draft->failed) return NULL;
  const ecx_coding *known = &b->draft->values[id].coding;
  if (known->scale != coding.scale || known->zero_point != coding.zero_point)
    return "another scale or zero point than its integers have";
  b->entries[out->number].integers = v;
  return NULL;
}

/* ---- scales of each call --------------------------------------------------------------------- */

static void note_writer(ecx_delegation *b, const ec_backend_value *v, uint32_t floats) {
  b->entries[v->number].writer = (uint32_t)b->at;
  b->entries[v->number].floats = floats;
}

/* Its results are never computed: XNNPACK chooses a scale for each row. */
const char *ecx_delegate_choose_qparams(ecx_delegation *b, const ecx_operator *row,
                                        const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0);
  if (!is_of(v, FLOAT32)) return "its dtype";
  if (!is_wide_range(call, 1)) return "its range";
  if (!b) return NULL;
  const uint32_t id = ecx_read(b, v, ECX_FORM_PLAIN);
  note_writer(b, ecx_arg_value(call, call->count - 2), id);
  note_writer(b, ecx_arg_out(call), id);
  return NULL;
}

bool ecx_is_dynamic_quantization(const ecx_operator *row) {
  return row->fn == ecx_delegate_choose_qparams || row->fn == ecx_delegate_quantize_dynamic ||
         row->fn == ecx_delegate_dequantize_dynamic;
}

/* Returns the floats that the scale and zero point of a call were chosen for. */
static uint32_t read_floats(const ecx_delegation *b, const ec_backend_kernel_call *call) {
  const uint32_t scale = b->entries[ecx_arg_value(call, 1)->number].floats;
  return b->entries[ecx_arg_value(call, 2)->number].floats == scale ? scale : ECX_NONE;
}

const char *ecx_delegate_quantize_dynamic(ecx_delegation *b, const ecx_operator *row,
                                          const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  if (!is_of(v, FLOAT32) || !is_of(out, INT8)) return "its dtype";
  if (!is_wide_range(call, 3)) return "its range";
  if (!is_like(v, out)) return "its shape";
  if (!b) return NULL;
  const uint32_t floats = read_floats(b, call);
  if (floats == ECX_NONE || floats != ecx_read(b, v, ECX_FORM_PLAIN))
    return "a scale that is not chosen for it before";
  note_writer(b, out, floats);
  return NULL;
}

const char *ecx_delegate_dequantize_dynamic(ecx_delegation *b, const ecx_operator *row,
                                            const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *v = ecx_arg_value(call, 0), *out = ecx_arg_out(call);
  if (!is_of(v, INT8) || !is_of(out, FLOAT32)) return "its dtype";
  if (!is_like(v, out)) return "its shape";
  if (!b) return NULL;
  const uint32_t floats = read_floats(b, call);
  if (floats == ECX_NONE || floats != b->entries[v->number].floats)
    return "a scale that is not chosen for it before";
  note_writer(b, out, floats);
  return NULL;
}

/* True for floats that stand for themselves, quantised and dequantised. */
static bool is_dynamic(const ecx_delegation *b, const ec_backend_value *v) {
  return is_of(v, FLOAT32) && b->entries[v->number].floats != ECX_NONE;
}

/* A view that has no call has the floats of its base. */
static void find_floats(ecx_delegation *b, const ec_backend_value *v) {
  ecx_entry *e = &b->entries[v->number];
  if (!v->same || e->floats != ECX_NONE || !is_dynamic(b, v->same)) return;
  const ecx_shape shape = ecx_shape_of(v, ECX_FORM_PLAIN);
  e->writer = b->entries[v->same->number].writer;
  e->floats = ecx_reshape(b, b->entries[v->same->number].floats, &shape, ECX_NONE);
}

uint32_t ecx_read_dynamic(ecx_delegation *b, const ec_backend_value *v) {
  find_floats(b, v);
  if (!is_dynamic(b, v) || b->draft->failed) return ECX_NONE;
  const uint32_t id = b->entries[v->number].floats;
  if (b->draft->values[id].dynamic == ECX_NONE) {
    ecx_watch(b, id);
    const uint32_t codes = ecx_convert(b, id, &(ecx_coding){.dtype = ECX_qdint8});
    b->draft->values[id].dynamic = codes;
  }
  return b->draft->values[id].dynamic;
}

bool ecx_view_dynamic(ecx_delegation *b, const ec_backend_value *v, const ec_backend_value *out,
                      size_t inferred) {
  find_floats(b, v);
  if (!is_dynamic(b, v)) return false;
  const ecx_shape shape = ecx_shape_of(out, ECX_FORM_PLAIN);
  note_writer(b, out, ecx_reshape(b, b->entries[v->number].floats, &shape, inferred));
  return true;
}
