/* Datatypes of operands that this XNNPACK supports for a node. Its own checks are insufficient:
 * some unexpected combinations are undefined behaviour. */
#include "nodes/types.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/constants.h"
#include "payload/values.h"

#define BIT(name) (1u << ECX_##name)
enum { FC = ECX_BIT_FC, CONV = ECX_BIT_CONV, DW = ECX_BIT_DW, DECONV = ECX_BIT_DECONV };

/* bf16 is computed as fp32. */
static ecx_dtype widened(ecx_dtype dtype) {
  return dtype == ECX_bf16 ? ECX_fp32 : dtype;
}

static const char *dtype_name(const ecx_value *v) {
  return v ? ecx_dtypes[v->dtype].name : "none";
}

static uint32_t refuse_types(const ecx_call *c, const ecx_graph *g, const ecx_node *n) {
  char text[ECX_TEXT] = "";
  size_t used = 0;
  for (unsigned i = 0; i < n->kind->inputs && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, i ? ", %s" : "%s",
                             dtype_name(ecx_in(g, n, i)));
  for (unsigned o = 0; o < n->kind->layout->outputs && used < sizeof text; o++)
    used += (size_t)snprintf(text + used, sizeof text - used, o ? ", %s" : " -> %s",
                             dtype_name(ecx_out(g, n, o)));
  return ecx_fail_node(c, n, EC_BACKEND_NOT_IMPLEMENTED,
                       "the XNNPACK of this backend (2024-11) does not support it "
                       "for datatypes %s", text);
}

/* True if all operands have one datatype out of `allowed`. */
static bool all_same(const ecx_graph *g, const ecx_node *n, uint32_t allowed) {
  ecx_dtype dtype = widened(ecx_out(g, n, 0)->dtype);
  for (unsigned i = 0; i < n->kind->inputs; i++) {
    const ecx_value *v = ecx_in(g, n, i);
    if (v && (widened(v->dtype) != dtype || v->quantize_here)) return false;
  }
  return allowed >> dtype & 1;
}

static bool has_weights(const ecx_graph *g, const ecx_node *n) {
  static const struct {
    ecx_dtype input, filter, bias, output;
    unsigned nodes;
  } rows[] = {
#define ECX_WEIGHTS_ROW(input, filter, bias, output, nodes)                                        \
  {ECX_##input, ECX_##filter, ECX_##bias, ECX_##output, (nodes)},
#include "nodes/weights.def"
#undef ECX_WEIGHTS_ROW
  };
  const ecx_value *in = ecx_in(g, n, 0), *filter = ecx_in(g, n, 1), *bias = ecx_in(g, n, 2);
  ecx_dtype input = in->quantize_here ? ECX_qdint8 : widened(in->dtype);
  if (in->quantize_here && n->kind->weights != FC) return false; /* it is per token */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].input == input && rows[i].filter == widened(filter->dtype) &&
        rows[i].output == widened(ecx_out(g, n, 0)->dtype) &&
        (!bias || rows[i].bias == widened(bias->dtype)) &&
        rows[i].nodes & n->kind->weights)
      return true;
  return false;
}

/* Widens a constant filter of 4 bits of a statically quantised layer. */
static uint32_t widen_halves(const ecx_call *c, const ecx_graph *g, const ecx_node *n) {
  if (n->in[1] == ECX_NONE || ecx_in(g, n, 0)->dtype != ECX_qint8) return EC_BACKEND_OK;
  ecx_value *v = &g->values[n->in[1]];
  if (v->dtype != ECX_qcint4 || !v->data.at || v->shape.rank != 2) return EC_BACKEND_OK;
  if (n->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) return EC_BACKEND_OK; /* refused later */
  ECX_TRY(ecx_widen_halves(c, &v->data, v->shape.dims[0], v->shape.dims[1]));
  v->dtype = ECX_qcint8;
  v->zero_point = 0;
  return EC_BACKEND_OK;
}

uint32_t ecx_widen_weights(const ecx_call *c, ecx_graph *g, const ecx_node *n) {
  if (n->kind->types != ECX_WEIGHTS || has_weights(g, n)) return EC_BACKEND_OK;
  ECX_TRY(widen_halves(c, g, n));
  for (unsigned i = 1; i < 3; i++) {
    if (n->in[i] == ECX_NONE) continue;
    ecx_value *v = &g->values[n->in[i]];
    if (v->dtype != ECX_fp16 || !v->data.at) continue;
    ECX_TRY(ecx_widen(c, &v->data, true));
    v->dtype = ECX_fp32;
  }
  return EC_BACKEND_OK;
}

static bool is_matmul(const ecx_graph *g, const ecx_node *n) {
  const ecx_value *a = ecx_in(g, n, 0), *b = ecx_in(g, n, 1);
  if (a->dtype == ECX_qdint8)
    return b->dtype == ECX_qcint8 && b->data.at && widened(ecx_out(g, n, 0)->dtype) == ECX_fp32;
  return all_same(g, n, BIT(fp32) | BIT(fp16));
}

static bool is_conversion(const ecx_graph *g, const ecx_node *n) {
  const uint32_t floats = BIT(fp32) | BIT(fp16), bytes = BIT(qint8) | BIT(quint8);
  const ecx_value *in = ecx_in(g, n, 0);
  uint32_t from = 1u << widened(in->dtype), to = 1u << widened(ecx_out(g, n, 0)->dtype);
  if (in->quantize_here) return false;
  if (to == BIT(qdint8)) return from & floats;
  return from & (floats | bytes) && to & (floats | bytes);
}

static bool is_argmax(const ecx_graph *g, const ecx_node *n) {
  ecx_dtype indices = ecx_out(g, n, 1)->dtype;
  return widened(ecx_in(g, n, 0)->dtype) == ECX_fp32 &&
         widened(ecx_out(g, n, 0)->dtype) == ECX_fp32 &&
         (indices == ECX_int32 || indices == ECX_fp32);
}

void ecx_mark_indices(ecx_graph *g, const ecx_node *n) {
  if (n->kind->types == ECX_ARGMAX && ecx_out(g, n, 1)->dtype == ECX_fp32)
    g->values[n->out[1]].dtype = ECX_int32;
  if (n->kind->types == ECX_MOVE && ecx_in(g, n, 0)->dtype == ECX_int32 &&
      ecx_out(g, n, 0)->dtype == ECX_fp32)
    g->values[n->out[0]].dtype = ECX_int32;
}

uint32_t ecx_check_types(const ecx_call *c, const ecx_graph *g, const ecx_node *n) {
  const uint32_t floats = BIT(fp32) | BIT(fp16), bytes = BIT(qint8) | BIT(quint8);
  bool fits = false;
  switch ((ecx_types)n->kind->types) {
  case ECX_FLOAT: fits = all_same(g, n, floats); break;
  case ECX_FLOAT_OR_8BIT: fits = all_same(g, n, floats | bytes); break;
  case ECX_MOVE: fits = all_same(g, n, floats | bytes | BIT(int32)); break;
  case ECX_WEIGHTS: fits = has_weights(g, n); break;
  case ECX_MATMUL: fits = is_matmul(g, n); break;
  case ECX_CONVERSION: fits = is_conversion(g, n); break;
  case ECX_ARGMAX: fits = is_argmax(g, n); break;
  }
  return fits ? EC_BACKEND_OK : refuse_types(c, g, n);
}
