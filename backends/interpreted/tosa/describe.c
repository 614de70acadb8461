/* The graph as text: tensors, and the nodes that a trace reports. Nothing is translated. */
#include "describe.h"

#include "../show.h"
#include "node.h"
#include "payload.h"

/* ---- values ---------------------------------------------------------------------------------- */

/* Integers of 8 and 16 bits are quantised numbers, whose scales no payload has. */
static const char *dtype_of(const ets_value *v) {
  if (v->dtype == ETS_INT8) return "qint8";
  return v->dtype == ETS_INT16 ? "qint16" : ets_dtype_name(v->dtype);
}

static void show_value(const ets_graph *g, uint32_t number, ect_show *s) {
  const ets_value *v = &g->values[number];
  size_t bytes;
  if (v->name) ect_note_add(&s->note, "%.80s", v->name);
  if (!ets_stored_bytes(v, &bytes)) bytes = 0;
  ect_show_tensor(s, &(ec_backend_inner_value){.id = number, .constant = v->data != NULL,
                                               .dtype = dtype_of(v), .rank = v->rank,
                                               .nbytes = bytes, .sizes = v->sizes});
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_run(const ets_node *n) { return n->op != ETS_CONST && n->op != ETS_CONST_SHAPE; }

static void note_attribute(const ets_node *n, size_t index, ect_note *note) {
  int64_t items[ECT_MAX_SHOWN];
  const ets_attribute *a = &n->attributes[index];
  const char *name = ets_attribute_name(n->op, index);
  const uint32_t count = a->count < ECT_MAX_SHOWN ? a->count : ECT_MAX_SHOWN;
  if (!name || !a->bytes) return;
  for (uint32_t i = 0; i < count; i++) items[i] = ets_attribute_at(n, index, i);
  if (count == 1) ect_note_add(note, "%s=%lld", name, (long long)items[0]);
  else ect_note_list(note, name, items, count);
}

/* Adds inputs that are shapes, which are no values of the trace. */
static void note_shapes(const ets_graph *g, const ets_node *n, ect_note *note) {
  for (uint32_t i = 0; i < n->input_count && i < ECT_MAX_SHOWN; i++) {
    const ets_value *v = &g->values[ets_inputs(g, n)[i]];
    if (v->dtype == ETS_SHAPE && v->data) ect_note_list(note, "", v->sizes, v->rank);
  }
}

static void add_tensors(const ets_graph *g, const uint32_t *operands, uint32_t count,
                        ect_operands *out) {
  for (uint32_t i = 0; i < count; i++)
    if (g->values[operands[i]].dtype != ETS_SHAPE) ect_show_operand(out, operands[i]);
}

static void show_node(const ets_graph *g, const ets_node *n, ect_show *s) {
  for (size_t i = 0; i < ETS_ATTRIBUTES; i++) note_attribute(n, i, &s->note);
  note_shapes(g, n, &s->note);
  add_tensors(g, ets_inputs(g, n), n->input_count, &s->inputs);
  add_tensors(g, ets_outputs(g, n), n->output_count, &s->outputs);
  ect_show_node(s, n->number, ets_op_name(n->op));
}

uint32_t ets_describe(void *graph, const ec_backend_visitor *visitor) {
  const ets_graph *g = graph;
  const ets_block *b = &g->blocks[0];
  ect_show s;
  EC_BACKEND_TRY(ect_show_open(&s, &g->c, visitor, g->value_count));
  for (uint32_t i = 0; i < b->input_count + b->output_count; i++)
    ect_show_argument(&s, g->operands[b->first + i], i);
  for (uint32_t i = 0; i < g->value_count; i++)
    if (g->values[i].dtype != ETS_SHAPE) show_value(g, i, &s);
  for (uint32_t i = 0; i < b->node_count; i++)
    if (is_run(&g->nodes[b->first_node + i])) show_node(g, &g->nodes[b->first_node + i], &s);
  ect_show_close(&s);
  return EC_BACKEND_OK;
}
