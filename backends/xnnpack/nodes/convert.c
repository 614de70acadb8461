/* Conversions and outputs that a payload lacks.
 *
 * The official flow (InsertPadQDQPass of 1.5.1) makes the result of a padding after a
 * dequantisation int8. It writes no conversion before the padding, none for readers in floats, and
 * no output if the padding is the last node. A node of mixed datatypes computes in fp32 here, as in
 * the exported graph: its integers are converted before it, and its result after it. */
#include "nodes/convert.h"

#include <string.h>

#include "call.h"
#include "nodes/elide.h"
#include "nodes/kind.h"
#include "nodes/kinds.h"
#include "payload/values.h"

/* A graph that grows into room for its conversions. */
typedef struct growth {
  ecx_graph *g;
  ecx_node *nodes;
  uint32_t node_count, next_id;
} growth;

static bool is_integer(const ecx_value *v) {
  return (v->dtype == ECX_qint8 || v->dtype == ECX_quint8) && v->scheme == ECX_PER_TENSOR;
}

static bool is_float(const ecx_value *v) {
  return v->dtype == ECX_fp32 && !v->quantize_here;
}

/* Returns the number of integers among the operands of a node of mixed datatypes, or 0. */
static uint32_t count_lacking(const ecx_graph *g, const ecx_node *n) {
  uint32_t integers = is_integer(ecx_out(g, n, 0)), floats = is_float(ecx_out(g, n, 0));
  const bool may_mix = n->kind->types == ECX_MOVE || n->kind->types == ECX_FLOAT ||
                       n->kind->types == ECX_FLOAT_OR_8BIT;
  if (!may_mix || n->kind->layout->outputs != 1 || integers + floats == 0) return 0;
  for (unsigned i = 0; i < n->kind->inputs; i++) {
    const ecx_value *v = ecx_in(g, n, i);
    if (!v) continue;
    if (!is_integer(v) && !is_float(v)) return 0;
    integers += is_integer(v);
    floats += is_float(v);
  }
  return floats ? integers : 0;
}

/* ---- the lost output ------------------------------------------------------------------------- */

uint32_t ecx_count_unused_results(const ecx_graph *g, uint32_t *last) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->value_count; i++) {
    const ecx_value *v = &g->values[i];
    if (v->producer == ECX_NONE || v->readers || v->is_output) continue;
    if (g->nodes[v->producer].kind->layout->outputs != 1) continue;
    *last = i;
    count++;
  }
  return count;
}

/* Returns the value of the last argument if no value has its position, and that is the only
 * position behind the inputs without a value. The last argument of a delegate is an output. */
static uint32_t find_lost_output(const ecx_graph *g) {
  uint32_t behind_inputs = 0, outputs = 0;
  for (uint32_t i = 0; i < g->value_count; i++) {
    const ecx_value *v = &g->values[i];
    if (!v->is_input && !v->is_output) continue;
    if (v->external >= g->extern_count || v->external + 1 == g->extern_count) return ECX_NONE;
    if (v->is_output) outputs++;
    else if (v->external >= behind_inputs) behind_inputs = v->external + 1;
  }
  uint32_t unused;
  const bool is_only = g->extern_count == behind_inputs + outputs + 1;
  return is_only && ecx_count_unused_results(g, &unused) == 1 ? unused : ECX_NONE;
}

/* ---- conversions ----------------------------------------------------------------------------- */

static uint32_t add_float(growth *w) {
  w->g->values[w->g->value_count] = (ecx_value){.dtype = ECX_fp32, .id = w->next_id++,
                                                .external = ECX_NONE, .producer = ECX_NONE};
  return w->g->value_count++;
}

/* Appends a node; its results get it as their producer. */
static void add_node(growth *w, const ecx_node *n) {
  ecx_node *added = &w->nodes[w->node_count];
  *added = *n;
  added->index = w->node_count++;
  for (unsigned o = 0; o < n->kind->layout->outputs; o++)
    w->g->values[n->out[o]].producer = added->index;
}

static void add_conversion(growth *w, const ecx_node *of, uint32_t from, uint32_t to) {
  ecx_node n = {.kind = &ecx_kinds[ECX_KIND_Convert], .params = NULL, /* all fields are absent */
                .debug_handle = of->debug_handle, .min = -__builtin_inff(),
                .max = __builtin_inff()};
  memset(n.in, 0xff, sizeof n.in);
  memset(n.out, 0xff, sizeof n.out);
  n.in[0] = from;
  n.out[0] = to;
  w->g->values[from].readers++;
  add_node(w, &n);
}

/* Appends a node between the conversions that it lacks. */
static void add_converted(growth *w, const ecx_node *from) {
  ecx_node n = *from;
  const bool is_mixed = count_lacking(w->g, from) != 0;
  const uint32_t result = n.out[0];
  for (unsigned i = 0; is_mixed && i < n.kind->inputs; i++) {
    if (n.in[i] == ECX_NONE || !is_integer(&w->g->values[n.in[i]])) continue;
    w->g->values[n.in[i]].readers--;
    n.in[i] = add_float(w);
    add_conversion(w, from, from->in[i], n.in[i]);
    w->g->values[n.in[i]].readers++;
  }
  const bool is_converted = is_mixed && is_integer(&w->g->values[result]);
  if (is_converted) n.out[0] = add_float(w);
  add_node(w, &n);
  if (is_converted) add_conversion(w, from, n.out[0], result);
}

/* Allocates `more` values and nodes. */
static uint32_t grow(const ecx_call *c, growth *w, uint32_t more) {
  ecx_graph *g = w->g;
  const size_t values = (size_t)g->value_count + more, nodes = (size_t)g->node_count + more;
  ecx_value *grown = c->host->alloc(values * sizeof *grown);
  ecx_elision *elided = c->host->alloc(values * sizeof *elided);
  w->nodes = c->host->alloc(nodes * sizeof *w->nodes);
  if (!grown || !elided || !w->nodes) {
    if (grown) c->host->free(grown);
    if (elided) c->host->free(elided);
    if (w->nodes) c->host->free(w->nodes);
    return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %u conversions",
                    (unsigned)more);
  }
  memcpy(grown, g->values, g->value_count * sizeof *grown);
  c->host->free(g->values);
  c->host->free(g->elided);
  g->values = grown;
  g->elided = elided;
  return EC_BACKEND_OK;
}

uint32_t ecx_add_conversions(const ecx_call *c, ecx_graph *g, uint32_t next_id) {
  growth w = {.g = g, .next_id = next_id};
  uint32_t output = find_lost_output(g), more = 0;
  const bool is_converted = output != ECX_NONE && is_integer(&g->values[output]);
  for (uint32_t i = 0; i < g->node_count; i++) more += count_lacking(g, &g->nodes[i]);
  if (more + is_converted) {
    ECX_TRY(grow(c, &w, more + is_converted));
    for (uint32_t i = 0; i < g->node_count; i++) add_converted(&w, &g->nodes[i]);
  }
  if (is_converted) {
    const uint32_t shown = add_float(&w);
    add_conversion(&w, &w.nodes[g->values[output].producer], output, shown);
    output = shown;
  }
  if (output != ECX_NONE) {
    g->values[output].is_output = true;
    g->values[output].external = g->extern_count - 1;
  }
  if (!w.nodes) return EC_BACKEND_OK;
  c->host->free(g->nodes);
  g->nodes = w.nodes;
  g->node_count = w.node_count;
  return EC_BACKEND_OK;
}
