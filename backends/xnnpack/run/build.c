/* Conversion of a checked graph to an XNNPACK runtime. */
#include "run/build.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "nodes/define.h"
#include "nodes/elide.h"
#include "nodes/graph.h"
#include "payload/values.h"
#include "run/lookup.h"
#include "status.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* ---- values ---------------------------------------------------------------------------------- */

/* Defines a value with a given id and flags. */
static enum xnn_status define_tensor(const ecx_builder *b, const ecx_value *v, uint32_t external,
                                     uint32_t flags, uint32_t *id) {
  enum xnn_datatype as = ecx_dtypes[v->dtype].as;
  const ecx_shape *s = &v->shape;
  switch (v->scheme) {
  case ECX_PLAIN:
    return xnn_define_tensor_value(b->subgraph, as, s->rank, s->dims, v->data.at, external, flags,
                                   id);
  case ECX_PER_TENSOR:
    return xnn_define_quantized_tensor_value(b->subgraph, as, v->zero_point, v->scale, s->rank,
                                             s->dims, v->data.at, external, flags, id);
  case ECX_PER_CHANNEL:
    return xnn_define_channelwise_quantized_tensor_value_v2(
        b->subgraph, as, v->zero_point, v->scales.at, s->rank, v->channel_dim, s->dims, v->data.at,
        external, flags, id);
  case ECX_PER_GROUP:
    return xnn_define_blockwise_quantized_tensor_value(
        b->subgraph, as, v->zero_point, v->scales.at, s->rank, v->channel_dim, v->group_size,
        s->dims, v->data.at, external, flags, id);
  case ECX_PER_TOKEN:
    return xnn_define_dynamically_quantized_tensor_value(b->subgraph, as, s->rank,
                                                         v->nonbatch_dims, s->dims, external,
                                                         flags, id);
  }
  return xnn_status_invalid_parameter;
}

/* Defines the dynamic quantisation of an input, which old files request by a field of the input
 * itself. */
static enum xnn_status define_quantized_input(const ecx_builder *b, const ecx_value *v,
                                              uint32_t *id) {
  uint32_t input = *id;
  enum xnn_status status = xnn_define_dynamically_quantized_tensor_value(
      b->subgraph, xnn_datatype_qdint8, v->shape.rank, v->shape.rank ? 1 : 0, v->shape.dims,
      XNN_INVALID_VALUE_ID, 0, id);
  return status == xnn_status_success ? xnn_define_convert(b->subgraph, input, *id, 0) : status;
}

static bool reads(const ecx_node *n, uint32_t index) {
  for (size_t i = 0; i < ECX_MAX_INPUTS; i++)
    if (n->in[i] == index) return true;
  return false;
}

bool ecx_is_in_step(const ecx_graph *g, const ecx_node *only, const ecx_node *n) {
  if (n == only) return true;
  for (unsigned o = 0; o < n->kind->layout->outputs; o++)
    if (ecx_out(g, n, o)->scheme == ECX_PER_TOKEN && reads(only, n->out[o])) return true;
  return false;
}

bool ecx_step_reads(const ecx_graph *g, const ecx_node *only, uint32_t index) {
  for (uint32_t i = 0; i < g->node_count; i++)
    if (ecx_is_in_step(g, only, &g->nodes[i]) && reads(&g->nodes[i], index)) return true;
  return false;
}

static bool is_run(const ecx_builder *b, const ecx_plan *plan, const ecx_node *n) {
  if (plan->only && !ecx_is_in_step(b->graph, plan->only, n)) return false;
  return plan->show_all ? !n->is_dead : ecx_is_run(b->graph, n);
}

/* Returns the flags of a value that an earlier step has computed: an input of this one; 0: it is
 * not. */
static uint32_t step_flags(const ecx_builder *b, const ecx_plan *plan, const ecx_value *v) {
  const bool earlier =
      plan->only && v->producer != ECX_NONE && !is_run(b, plan, &b->graph->nodes[v->producer]);
  return earlier ? XNN_VALUE_FLAG_EXTERNAL_INPUT : 0u;
}

/* True if only a table's chain has the value. */
static bool is_inside(const ecx_graph *g, const ecx_value *v) {
  return v->producer != ECX_NONE && g->nodes[v->producer].is_joined;
}

static uint32_t define_value(const ecx_builder *b, const ecx_plan *plan, uint32_t index) {
  const ecx_value *v = &b->graph->values[index];
  const ecx_elision *e = &b->graph->elided[index];
  const ecx_value *place = plan->show_all || e->stands_for == ECX_NONE
                               ? v : &b->graph->values[e->stands_for];
  const uint32_t uses = plan->show_all ? v->readers : e->uses;
  bool computed = v->producer != ECX_NONE && is_run(b, plan, &b->graph->nodes[v->producer]);
  uint32_t flags = 0, external = XNN_INVALID_VALUE_ID;
  char text[ECX_TEXT];
  if (!plan->show_all && (e->same != index || is_inside(b->graph, v))) return EC_BACKEND_OK;
  if (!computed && uses == 0) return EC_BACKEND_OK; /* unused */
  if (plan->only && !computed && !ecx_step_reads(b->graph, plan->only, index)) return EC_BACKEND_OK;
  if (place->is_input || place->is_output) {
    flags = place->is_input ? XNN_VALUE_FLAG_EXTERNAL_INPUT : XNN_VALUE_FLAG_EXTERNAL_OUTPUT;
    flags = step_flags(b, plan, v) ? step_flags(b, plan, v) : flags;
    external = place->external;
  } else if (plan->show_all && ecx_is_shown(b->graph, v)) {
    flags = step_flags(b, plan, v);
    if (!flags) flags = XNN_VALUE_FLAG_EXTERNAL_OUTPUT;
    external = ecx_shown_id(b->graph, index);
  /* an unused result of a node with two: otherwise it has no memory */
  } else if (uses == 0) {
    flags = XNN_VALUE_FLAG_PERSISTENT;
  }
  enum xnn_status status = define_tensor(b, v, external, flags, &b->ids[index]);
  if (status == xnn_status_success && v->quantize_here)
    status = define_quantized_input(b, v, &b->ids[index]);
  if (status == xnn_status_success) return EC_BACKEND_OK;
  return ecx_fail(b->c, ecx_status_code(status),
                  "XNNPACK refuses value %u, %s of shape %s: '%s'", (unsigned)index,
                  ecx_dtypes[v->dtype].name, ecx_shape_text(&v->shape, text, sizeof text),
                  ecx_status_name(status));
}

/* ---- whole graphs ---------------------------------------------------------------------------- */

static uint32_t define_all(ecx_builder *b, const ecx_plan *plan) {
  const ecx_graph *g = b->graph;
  uint32_t externs = g->extern_count + (plan->show_all ? g->value_count : 0);
  enum xnn_status status = xnn_create_subgraph(externs, 0, &b->subgraph);
  if (status != xnn_status_success)
    return ecx_fail(b->c, ecx_status_code(status), "xnn_create_subgraph failed: '%s'",
                    ecx_status_name(status));
  for (uint32_t i = 0; i < g->value_count; i++) ECX_TRY(define_value(b, plan, i));
  for (uint32_t i = 0; i < g->value_count && !plan->show_all; i++)
    b->ids[i] = b->ids[g->elided[i].same];
  for (uint32_t i = 0; i < g->node_count; i++) {
    const ecx_node *n = &g->nodes[i];
    if (!is_run(b, plan, n)) continue;
    ECX_TRY(n->lookup && !plan->show_all ? ecx_define_lookup(b, n) : n->kind->define(b, n));
  }
  return EC_BACKEND_OK;
}

static uint32_t create_runtime(const ecx_builder *b, const ecx_plan *plan, xnn_runtime_t *out) {
  enum xnn_status status = xnn_create_runtime_v4(b->subgraph, plan->cache, plan->workspace,
                                                 plan->threads, plan->flags, out);
  if (status == xnn_status_success) return EC_BACKEND_OK;
  return ecx_fail(b->c, ecx_status_code(status),
                  "XNNPACK cannot create a runtime of %u nodes and %u values: '%s'",
                  (unsigned)b->graph->node_count, (unsigned)b->graph->value_count,
                  ecx_status_name(status));
}

uint32_t ecx_build(const ecx_call *c, const ecx_graph *g, const ecx_plan *plan,
                   xnn_runtime_t *out) {
  uint32_t *ids = c->host->scratch(c->call, g->value_count * sizeof *ids);
  ecx_builder b = {c, g, NULL, ids};
  if (!ids) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for ids");
  memset(ids, 0xff, g->value_count * sizeof *ids);
  uint32_t status = define_all(&b, plan);
  if (!status) status = create_runtime(&b, plan, out);
  if (b.subgraph) xnn_delete_subgraph(b.subgraph);
  return status;
}
