/* Conversion of a verified FlatBuffer to values and nodes: ids are resolved, each value is computed
 * once and before it is read, and arguments have distinct positions. */
#include "nodes/read_graph.h"

#include <string.h>

#include "call.h"
#include "nodes/convert.h"
#include "nodes/elide.h"
#include "nodes/graph.h"
#include "nodes/infer.h"
#include "nodes/kind.h"
#include "nodes/kinds.h"
#include "nodes/types.h"
#include "payload/payload.h"
#include "payload/values.h"

/* Flags without effect: exporters write them where they change nothing (a maximum over an image
 * that keeps its dimensions is a MaxPooling2d), or where another field has the same information. */
enum { MEANINGLESS = XNN_FLAG_KEEP_DIMS | XNN_FLAG_YIELD_WORKERS | XNN_FLAG_FP32_STATIC_WEIGHTS };

/* The state of reading a graph. */
typedef struct reader {
  const ecx_call *c;
  const ecx_payload *payload;
  ecx_graph *graph;
  uint32_t *by_id; /* value by id, or ECX_NONE */
  uint32_t id_count;
} reader;

/* ---- values ---------------------------------------------------------------------------------- */

static uint32_t read_values(reader *r) {
  ecx_graph *g = r->graph;
  uint32_t highest = 0;
  for (uint32_t i = 0; i < g->value_count; i++) {
    ECX_TRY(ecx_value_read(r->c, r->payload, i, &g->values[i]));
    if (g->values[i].id >= ECX_MAX_ID)
      return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM,
                      "payload: value %u has id %u, expected less than %d", (unsigned)i,
                      (unsigned)g->values[i].id, ECX_MAX_ID);
    if (g->values[i].id > highest) highest = g->values[i].id;
  }
  r->id_count = highest + 1;
  r->by_id = r->c->host->alloc(r->id_count * sizeof *r->by_id);
  if (!r->by_id)
    return ecx_fail(r->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %u ids",
                    (unsigned)r->id_count);
  memset(r->by_id, 0xff, r->id_count * sizeof *r->by_id);
  for (uint32_t i = 0; i < g->value_count; i++) {
    uint32_t *slot = &r->by_id[g->values[i].id];
    if (*slot != ECX_NONE)
      return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM, "payload: values %u and %u both have id %u",
                      (unsigned)*slot, (unsigned)i, (unsigned)g->values[i].id);
    *slot = i;
  }
  return EC_BACKEND_OK;
}

/* Fails if a position behind the inputs has no value while nothing uses a result: an output that
 * the exporter lost would not be written. */
static uint32_t check_gap(const reader *r, uint32_t position) {
  uint32_t unused = ECX_NONE;
  if (position == ECX_NONE || !ecx_count_unused_results(r->graph, &unused)) return EC_BACKEND_OK;
  return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM,
                  "payload: argument %u has no value, and nothing uses the value with id %u, which "
                  "a node computes: its exporter lost an output", (unsigned)position,
                  (unsigned)r->graph->values[unused].id);
}

/* Assigns inputs and outputs to their positions among the arguments. */
static uint32_t place_arguments(const reader *r) {
  ecx_graph *g = r->graph;
  uint32_t at[2] = {0, 0}, gap = ECX_NONE;
  uint32_t *by_position = r->c->host->scratch(r->c->call,
                                              (g->extern_count + 1) * sizeof *by_position);
  if (!by_position) return ecx_fail(r->c, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  memset(by_position, 0xff, g->extern_count * sizeof *by_position);
  for (uint32_t i = 0; i < g->value_count; i++) {
    const ecx_value *v = &g->values[i];
    if (!v->is_input && !v->is_output) continue;
    if (v->external >= g->extern_count || by_position[v->external] != ECX_NONE)
      return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM,
                      "payload: value %u is argument %u of %u, which is %s", (unsigned)i,
                      (unsigned)v->external, (unsigned)g->extern_count,
                      v->external >= g->extern_count ? "out of range" : "already another value");
    by_position[v->external] = i;
  }
  for (uint32_t p = 0; p < g->extern_count; p++) {
    if (by_position[p] == ECX_NONE) {
      gap = p;
      continue;
    }
    bool is_output = g->values[by_position[p]].is_output;
    if (at[1] && (!is_output || p != g->arg_count))
      return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM,
                      "payload: argument %u follows an output, expected an output",
                      (unsigned)g->arg_count);
    (is_output ? g->outputs : g->inputs)[at[is_output]++] = by_position[p];
    g->arg_count = p + 1;
    if (!is_output) gap = ECX_NONE;
  }
  g->input_count = at[0];
  g->output_count = at[1];
  if (!at[1]) return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM, "payload: it has no outputs");
  return check_gap(r, gap);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_defined(const ecx_value *v) {
  return v->data.at || v->is_input || v->producer != ECX_NONE;
}

static uint32_t read_operand(const reader *r, const ecx_node *n, unsigned field, bool optional,
                             uint32_t *out) {
  uint32_t id = ec_fb_u32(n->params, field);
  *out = id < r->id_count ? r->by_id[id] : ECX_NONE;
  if (*out != ECX_NONE || (optional && id == XNN_INVALID_VALUE_ID)) return EC_BACKEND_OK;
  return ecx_fail_node(r->c, n, EC_BACKEND_INVALID_PROGRAM, "no value has id %u", (unsigned)id);
}

static uint32_t read_operands(const reader *r, ecx_node *n) {
  const ecx_layout *layout = n->kind->layout;
  ecx_graph *g = r->graph;
  memset(n->in, 0xff, sizeof n->in);
  memset(n->out, 0xff, sizeof n->out);
  for (unsigned i = 0; i < n->kind->inputs; i++) {
    ECX_TRY(read_operand(r, n, layout->in[i], layout->optional >> i & 1, &n->in[i]));
    if (n->in[i] == ECX_NONE) continue;
    ecx_value *v = &g->values[n->in[i]];
    if (!is_defined(v))
      return ecx_fail_node(r->c, n, EC_BACKEND_INVALID_PROGRAM,
                           "reads the value with id %u, which has no data and is not computed "
                           "by an earlier node", (unsigned)v->id);
    v->readers++;
  }
  for (unsigned i = 0; i < layout->outputs; i++) {
    ECX_TRY(read_operand(r, n, layout->out[i], false, &n->out[i]));
    ecx_value *v = &g->values[n->out[i]];
    if (is_defined(v))
      return ecx_fail_node(r->c, n, EC_BACKEND_INVALID_PROGRAM,
                           "computes the value with id %u, which is already defined",
                           (unsigned)v->id);
    v->producer = n->index;
  }
  return EC_BACKEND_OK;
}

static uint32_t read_bounds(const reader *r, ec_fb_table table, ecx_node *n) {
  ec_fb_table bounds = ec_fb_child(table, ECX_Node_min_max);
  n->min = bounds ? ec_fb_f32(bounds, ECX_MinMax_min) : -__builtin_inff();
  n->max = bounds ? ec_fb_f32(bounds, ECX_MinMax_max) : __builtin_inff();
  if (n->kind->fusion == ECX_FUSION_ALONE || n->kind->fusion == ECX_FUSION_CLAMP)
    if (n->min != n->min || n->max != n->max) return EC_BACKEND_OK; /* as NaN: ecx_define_clamp */
  /* As torch.clamp does: */
  if (n->kind->fusion != ECX_FUSION_CLAMPED && n->min > n->max) n->min = n->max;
  if (n->min <= n->max) return EC_BACKEND_OK;
  return ecx_fail_node(r->c, n, EC_BACKEND_INVALID_PROGRAM, "bounds %g and %g of its result",
                       n->min, n->max);
}

static uint32_t read_node(const reader *r, ec_fb_table table, ecx_node *n) {
  uint8_t type = ec_fb_u8(table, ECX_Node_node_type);
  n->kind = &ecx_kinds[type < ECX_KINDS ? type : 0];
  n->debug_handle = ec_fb_u32(table, ECX_Node_debug_handle);
  if (!n->kind->name)
    return ecx_fail(r->c, EC_BACKEND_NOT_IMPLEMENTED,
                    "payload: node %u is of type %u, unknown to this backend: it was "
                    "exported for a newer version", (unsigned)n->index, (unsigned)type);
  n->params = ec_fb_union(table, ECX_Node_node, type);
  if (!n->params)
    return ecx_fail_node(r->c, n, EC_BACKEND_INVALID_PROGRAM, "has no parameters");
  n->flags = ec_fb_u32(n->params, n->kind->layout->flags);
  if (n->flags & ~(n->kind->flags | MEANINGLESS))
    return ecx_fail_node(r->c, n, EC_BACKEND_NOT_SUPPORTED, "flags 0x%x, known are 0x%x",
                         (unsigned)n->flags, (unsigned)n->kind->flags);
  n->flags &= n->kind->flags;
  ECX_TRY(read_bounds(r, table, n));
  ECX_TRY(read_operands(r, n));
  ecx_mark_indices(r->graph, n);
  return EC_BACKEND_OK;
}

static bool is_wanted(const ecx_graph *g, const ecx_node *n) {
  for (unsigned o = 0; o < n->kind->layout->outputs; o++)
    if (ecx_out(g, n, o)->is_output || ecx_out(g, n, o)->readers) return true;
  return false;
}

/* Processes nodes from the last to the first, so that nodes that only dead ones read are dead,
 * too. */
static void find_dead_nodes(ecx_graph *g) {
  for (uint32_t i = g->node_count; i-- > 0;) {
    ecx_node *n = &g->nodes[i];
    n->is_dead = !is_wanted(g, n);
    for (unsigned in = 0; n->is_dead && in < n->kind->inputs; in++)
      if (n->in[in] != ECX_NONE) g->values[n->in[in]].readers--;
  }
}

static uint32_t read_nodes(const reader *r) {
  ecx_graph *g = r->graph;
  ec_fb_vec nodes = ec_fb_vector(r->payload->root, ECX_Graph_nodes);
  for (uint32_t i = 0; i < g->node_count; i++) {
    g->nodes[i].index = i;
    ECX_TRY(read_node(r, ec_fb_vec_table(nodes, i), &g->nodes[i]));
  }
  return ecx_add_conversions(r->c, g, r->id_count);
}

static uint32_t check_nodes(const reader *r) {
  ecx_graph *g = r->graph;
  /* A second pass widens for earlier nodes that share a filter with a later one. */
  for (uint32_t i = 0; i < 2 * g->node_count; i++)
    ECX_TRY(ecx_widen_weights(r->c, g, &g->nodes[i % g->node_count]));
  for (uint32_t i = 0; i < g->node_count; i++) ECX_TRY(ecx_check_types(r->c, g, &g->nodes[i]));
  for (uint32_t i = 0; i < g->output_count; i++)
    if (g->values[g->outputs[i]].producer == ECX_NONE)
      return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM,
                      "payload: no node computes output %u (value with id %u)", (unsigned)i,
                      (unsigned)g->values[g->outputs[i]].id);
  find_dead_nodes(g);
  return EC_BACKEND_OK;
}

/* ---- whole graphs ---------------------------------------------------------------------------- */

static uint32_t alloc_graph(const reader *r) {
  const ec_host *host = r->c->host;
  ecx_graph *g = r->graph;
  ec_fb_table root = r->payload->root;
  g->value_count = ec_fb_vector(root, ECX_Graph_values).count;
  g->node_count = ec_fb_vector(root, ECX_Graph_nodes).count;
  g->extern_count = ec_fb_u32(root, ECX_Graph_num_externs);
  if (!g->value_count || !g->node_count)
    return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM, "payload: %u values and %u nodes",
                    (unsigned)g->value_count, (unsigned)g->node_count);
  if (g->extern_count > ECX_MAX_EXTERNS)
    return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM, "payload: %u arguments, expected at most %d",
                    (unsigned)g->extern_count, ECX_MAX_EXTERNS);
  g->values = host->alloc(g->value_count * sizeof *g->values);
  g->nodes = host->alloc(g->node_count * sizeof *g->nodes);
  g->elided = host->alloc(g->value_count * sizeof *g->elided);
  g->inputs = host->alloc(g->extern_count * sizeof *g->inputs + 1);
  g->outputs = host->alloc(g->extern_count * sizeof *g->outputs + 1);
  if (g->values && g->nodes && g->elided && g->inputs && g->outputs) return EC_BACKEND_OK;
  return ecx_fail(r->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %u values and %u nodes",
                  (unsigned)g->value_count, (unsigned)g->node_count);
}

uint32_t ecx_graph_open(const ecx_call *c, const ecx_payload *payload, ecx_graph *graph) {
  reader r = {c, payload, graph, NULL, 0};
  uint32_t status = alloc_graph(&r);
  if (!status) status = read_values(&r);
  if (!status) status = read_nodes(&r);
  if (!status) status = place_arguments(&r);
  if (!status) status = check_nodes(&r);
  if (!status) status = ecx_graph_infer(c, graph);
  if (r.by_id) c->host->free(r.by_id);
  return status;
}
