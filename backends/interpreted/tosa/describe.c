/* The graph as text: tensors, and the nodes that a trace reports. Nothing is translated. */
#include "describe.h"

#include "../note.h"
#include "node.h"
#include "payload.h"

enum { MOST_SHOWN = 64 };

/* ---- values ---------------------------------------------------------------------------------- */

/* Position among the delegate's arguments; UINT32_MAX: none. */
static uint32_t argument_of(const ets_graph *g, uint32_t value) {
  const ets_block *b = &g->blocks[0];
  for (uint32_t i = 0; i < b->input_count + b->output_count && i < MOST_SHOWN; i++)
    if (g->operands[b->first + i] == value) return i;
  return UINT32_MAX;
}

/* Integers of 8 and 16 bits are quantised numbers, whose scales no payload has. */
static const char *dtype_of(const ets_value *v) {
  if (v->dtype == ETS_INT8) return "qint8";
  return v->dtype == ETS_INT16 ? "qint16" : ets_dtype_name(v->dtype);
}

static void show_value(const ets_graph *g, uint32_t number, const ec_backend_visitor *visitor) {
  const ets_value *v = &g->values[number];
  ect_note note = {{0}, 0};
  size_t bytes;
  if (v->name) ect_note_add(&note, "%.80s", v->name);
  if (!ets_stored_bytes(v, &bytes)) bytes = 0;
  const ec_backend_inner_value shown = {
      .id = number, .argument = argument_of(g, number), .constant = v->data != NULL,
      .dtype = dtype_of(v), .note = note.used ? note.at : NULL, .rank = v->rank,
      .nbytes = bytes, .sizes = v->sizes};
  visitor->value(visitor->user, &shown);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_run(const ets_node *n) { return n->op != ETS_CONST && n->op != ETS_CONST_SHAPE; }

static void note_attribute(const ets_node *n, size_t index, ect_note *note) {
  int64_t items[MOST_SHOWN];
  const ets_attribute *a = &n->attributes[index];
  const char *name = ets_attribute_name(n->op, index);
  const uint32_t count = a->count < MOST_SHOWN ? a->count : MOST_SHOWN;
  if (!name || !a->bytes) return;
  for (uint32_t i = 0; i < count; i++) items[i] = ets_attribute_at(n, index, i);
  if (count == 1) ect_note_add(note, "%s=%lld", name, (long long)items[0]);
  else ect_note_list(note, name, items, count);
}

/* Adds inputs that are shapes, which are no values of the trace. */
static void note_shapes(const ets_graph *g, const ets_node *n, ect_note *note) {
  for (uint32_t i = 0; i < n->input_count && i < MOST_SHOWN; i++) {
    const ets_value *v = &g->values[ets_inputs(g, n)[i]];
    if (v->dtype == ETS_SHAPE && v->data) ect_note_list(note, "", v->sizes, v->rank);
  }
}

static size_t find_tensors(const ets_graph *g, const uint32_t *operands, uint32_t count,
                           uint32_t *out) {
  size_t found = 0;
  for (uint32_t i = 0; i < count && i < MOST_SHOWN; i++)
    if (g->values[operands[i]].dtype != ETS_SHAPE) out[found++] = operands[i];
  return found;
}

static void show_node(const ets_graph *g, const ets_node *n, const ec_backend_visitor *visitor) {
  uint32_t in[MOST_SHOWN], out[MOST_SHOWN];
  ect_note note = {{0}, 0};
  for (size_t i = 0; i < ETS_ATTRIBUTES; i++) note_attribute(n, i, &note);
  note_shapes(g, n, &note);
  const ec_backend_inner_node shown = {
      .debug_handle = n->number, .name = ets_op_name(n->op), .note = note.used ? note.at : NULL,
      .inputs = in, .outputs = out,
      .input_count = find_tensors(g, ets_inputs(g, n), n->input_count, in),
      .output_count = find_tensors(g, ets_outputs(g, n), n->output_count, out)};
  visitor->node(visitor->user, &shown);
}

uint32_t ets_describe(void *graph, const ec_backend_visitor *visitor) {
  const ets_graph *g = graph;
  const ets_block *b = &g->blocks[0];
  for (uint32_t i = 0; i < g->value_count; i++)
    if (g->values[i].dtype != ETS_SHAPE) show_value(g, i, visitor);
  for (uint32_t i = 0; i < b->node_count; i++)
    if (is_run(&g->nodes[b->first_node + i])) show_node(g, &g->nodes[b->first_node + i], visitor);
  return EC_BACKEND_OK;
}
