/* Chains of float nodes between integers of 8 bits, each computed by one table of 256 results.
 *
 * XNNPACKQuantizer quantises what surrounds an activation, not the activation: hardswish between
 * two convolutions becomes three passes over floats (Convert, Hardswish, Convert). A chain ends in
 * a conversion to integers, begins with conversions of one value of integers, and what is between
 * them is pointwise and read by the chain alone. XNNPACK's own operators compute its 256 results at
 * load, so the bits are the same. */
#include "run/lookup.h"

#include <string.h>

#include "call.h"
#include "nodes/define.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/values.h"
#include "status.h"

#ifdef EXECUTORCH_C_SPEED

enum { RESULTS = 256, MAX_CHAIN_NODES = 16 };

/* A chain: the nodes before the last conversion, in the order of the graph. */
typedef struct chain {
  ecx_graph *g;
  ecx_node *last;
  uint32_t nodes[MAX_CHAIN_NODES], count;
  uint32_t from; /* the value of integers that it reads, or ECX_NONE */
} chain;

/* ---- finding --------------------------------------------------------------------------------- */

static bool is_bytes(const ecx_value *v) {
  return v->scheme == ECX_PER_TENSOR && (v->dtype == ECX_qint8 || v->dtype == ECX_quint8);
}

static bool is_number(const ecx_value *v) {
  size_t count;
  return v->data.at && v->scheme == ECX_PLAIN && v->dtype == ECX_fp32 &&
         ecx_shape_count(&v->shape, &count) && count == 1;
}

static bool is_pointwise(const ecx_kind *kind) {
  return kind->define == ecx_define_unary || kind->define == ecx_define_clamp ||
         kind->define == ecx_define_leaky_relu || kind->define == ecx_define_elu ||
         kind->define == ecx_define_binary || kind->define == ecx_define_clamped_binary;
}

/* True if the node converts between integers and floats, in the direction given by `to_bytes`. */
static bool is_conversion(const ecx_graph *g, const ecx_node *n, bool to_bytes) {
  const ecx_value *in = ecx_in(g, n, 0), *out = ecx_out(g, n, 0);
  return n->kind->define == ecx_define_convert && is_bytes(to_bytes ? out : in) &&
         (to_bytes ? in : out)->scheme == ECX_PLAIN;
}

/* Adds a node in the order of the graph. Returns false if there are too many. */
static bool add_node(chain *ch, uint32_t index) {
  uint32_t at = ch->count;
  for (uint32_t i = 0; i < ch->count; i++)
    if (ch->nodes[i] == index) return true;
  if (ch->count == MAX_CHAIN_NODES) return false;
  for (; at > 0 && ch->nodes[at - 1] > index; at--) ch->nodes[at] = ch->nodes[at - 1];
  ch->nodes[at] = index;
  ch->count++;
  return true;
}

/* Adds the nodes that compute the operands of a node. */
static bool add_operands(chain *ch, const ecx_node *n);

static bool add_producer(chain *ch, uint32_t value) {
  const ecx_graph *g = ch->g;
  const ecx_value *v = &g->values[value];
  if (is_number(v)) return true;
  if (v->producer == ECX_NONE || v->scheme != ECX_PLAIN) return false;
  const ecx_node *n = &g->nodes[v->producer];
  if (is_conversion(g, n, false)) {
    if (ch->from == ECX_NONE) ch->from = n->in[0];
    return ch->from == n->in[0] && !g->values[ch->from].data.at && add_node(ch, n->index);
  }
  const uint32_t before = ch->count;
  if (v->is_output || !is_pointwise(n->kind) || !add_node(ch, n->index)) return false;
  return ch->count == before || add_operands(ch, n);
}

static bool add_operands(chain *ch, const ecx_node *n) {
  for (unsigned i = 0; i < n->kind->inputs; i++)
    if (n->in[i] == ECX_NONE || !add_producer(ch, n->in[i])) return false;
  return true;
}

/* Returns how often the chain reads a value. */
static uint32_t count_reads(const chain *ch, uint32_t value) {
  uint32_t reads = ch->last->in[0] == value;
  for (uint32_t i = 0; i < ch->count; i++)
    for (unsigned k = 0; k < ECX_MAX_INPUTS; k++)
      reads += ch->g->nodes[ch->nodes[i]].in[k] == value;
  return reads;
}

/* True if nothing else reads what the chain computes, and numbers do not add dimensions. */
static bool is_private(const chain *ch) {
  const ecx_graph *g = ch->g;
  for (uint32_t i = 0; i < ch->count; i++) {
    const ecx_node *n = &g->nodes[ch->nodes[i]];
    if (ecx_out(g, n, 0)->shape.rank != g->values[ch->from].shape.rank) return false;
    if (!is_conversion(g, n, false) &&
        count_reads(ch, n->out[0]) != ecx_out(g, n, 0)->readers)
      return false;
  }
  return true;
}

static bool find_chain(ecx_graph *g, ecx_node *last, chain *ch) {
  *ch = (chain){.g = g, .last = last, .from = ECX_NONE};
  return !last->is_dead && is_conversion(g, last, true) && add_operands(ch, last) &&
         ch->from != ECX_NONE && is_private(ch);
}

/* Marks the nodes that only chains read. A first conversion may have other readers; `left` has the
 * reads of each value that remain. */
static void join_nodes(const chain *ch, uint32_t *left) {
  for (uint32_t i = 0; i < ch->count; i++) {
    ecx_node *n = &ch->g->nodes[ch->nodes[i]];
    left[n->out[0]] -= count_reads(ch, n->out[0]);
    n->is_joined = left[n->out[0]] == 0 && !ecx_out(ch->g, n, 0)->is_output;
  }
}

/* ---- computation ----------------------------------------------------------------------------- */

/* Defines a value of 256 elements, or a number. */
static enum xnn_status define_elements(const ecx_builder *b, uint32_t value, uint32_t external,
                                       uint32_t flags) {
  const ecx_value *v = &b->graph->values[value];
  const enum xnn_datatype as = ecx_dtypes[v->dtype].as;
  const size_t dims[1] = {v->data.at ? 1 : RESULTS};
  if (v->scheme == ECX_PER_TENSOR)
    return xnn_define_quantized_tensor_value(b->subgraph, as, v->zero_point, v->scale, 1, dims,
                                             NULL, external, flags, &b->ids[value]);
  return xnn_define_tensor_value(b->subgraph, as, 1, dims, v->data.at, external, flags,
                                 &b->ids[value]);
}

/* Defines the node's numbers and its result, then the node. */
static uint32_t define_link(ecx_builder *b, const ecx_node *n, uint32_t external, uint32_t flags) {
  enum xnn_status status = xnn_status_success;
  for (unsigned i = 0; i < n->kind->inputs && status == xnn_status_success; i++)
    if (is_number(ecx_in(b->graph, n, i)))
      status = define_elements(b, n->in[i], XNN_INVALID_VALUE_ID, 0);
  if (status == xnn_status_success) status = define_elements(b, n->out[0], external, flags);
  ECX_TRY(ecx_node_status(b, n, "a table's value", status));
  return n->kind->define(b, n);
}

static uint32_t define_chain(const chain *ch, ecx_builder *b) {
  enum xnn_status status = xnn_create_subgraph(2, 0, &b->subgraph);
  if (status == xnn_status_success)
    status = define_elements(b, ch->from, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT);
  ECX_TRY(ecx_node_status(b, ch->last, "a table's input", status));
  for (uint32_t i = 0; i < ch->count; i++)
    ECX_TRY(define_link(b, &ch->g->nodes[ch->nodes[i]], XNN_INVALID_VALUE_ID, 0));
  return define_link(b, ch->last, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT);
}

static enum xnn_status run_chain(xnn_subgraph_t subgraph, uint8_t *results) {
  uint8_t bytes[RESULTS + XNN_EXTRA_BYTES] = {0}, out[RESULTS + XNN_EXTRA_BYTES];
  const struct xnn_external_value pointers[2] = {{0, bytes}, {1, out}};
  xnn_runtime_t runtime = NULL;
  for (unsigned i = 0; i < RESULTS; i++) bytes[i] = (uint8_t)i;
  enum xnn_status status = xnn_create_runtime_v2(subgraph, NULL, 0, &runtime);
  if (status == xnn_status_success) status = xnn_reshape_runtime(runtime);
  if (status == xnn_status_success) status = xnn_setup_runtime_v2(runtime, 2, pointers);
  if (status == xnn_status_success) status = xnn_invoke_runtime(runtime);
  if (status == xnn_status_success) memcpy(results, out, RESULTS);
  if (runtime) xnn_delete_runtime(runtime);
  return status;
}

static uint32_t compute(const ecx_call *c, const chain *ch, uint32_t *ids, uint8_t *results) {
  ecx_builder b = {c, ch->g, NULL, ids};
  uint32_t status = define_chain(ch, &b);
  if (!status)
    status = ecx_node_status(&b, ch->last, "a table", run_chain(b.subgraph, results));
  if (b.subgraph) xnn_delete_subgraph(b.subgraph);
  return status;
}

/* ---- whole graphs ---------------------------------------------------------------------------- */

static uint32_t find_all(const ecx_call *c, ecx_graph *g, uint32_t *left, uint32_t *ids) {
  uint8_t *results = g->lookups;
  chain ch;
  for (uint32_t i = 0; i < g->value_count; i++) left[i] = g->values[i].readers;
  for (uint32_t i = 0; i < g->node_count; i++) {
    if (!find_chain(g, &g->nodes[i], &ch)) continue;
    ECX_TRY(compute(c, &ch, ids, results));
    ch.last->lookup = results;
    ch.last->lookup_from = ch.from;
    join_nodes(&ch, left);
    results += RESULTS;
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_find_lookups(const ecx_call *c, ecx_graph *g) {
  chain ch;
  size_t count = 0;
  for (uint32_t i = 0; i < g->node_count; i++) count += find_chain(g, &g->nodes[i], &ch);
  if (!count) return EC_BACKEND_OK;
  uint32_t *scratch = c->host->scratch(c->call, 2 * g->value_count * sizeof *scratch);
  g->lookups = c->host->alloc(count * RESULTS);
  if (!scratch || !g->lookups)
    return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu tables", count);
  return find_all(c, g, scratch, scratch + g->value_count);
}

uint32_t ecx_define_lookup(ecx_builder *b, const ecx_node *n) {
  const union xnn_unary_params params = {.ecx_table = n->lookup};
  return ecx_node_status(b, n, "a table",
                         xnn_define_unary(b->subgraph, xnn_unary_ecx_table, &params,
                                          b->ids[n->lookup_from], ecx_out_id(b, n, 0), 0));
}

#else /* an XNNPACK without the patches of third_party */

uint32_t ecx_find_lookups(const ecx_call *c, ecx_graph *g) {
  (void)c;
  (void)g;
  return EC_BACKEND_OK;
}

uint32_t ecx_define_lookup(ecx_builder *b, const ecx_node *n) { return n->kind->define(b, n); }

#endif

uint32_t ecx_count_lookups(const ecx_graph *g) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->node_count; i++) count += g->nodes[i].lookup ? 1 : 0;
  return count;
}
