/* The contents of a payload for display: the checked graph as text. Nothing is compiled. */
#include "nodes/describe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "nodes/read_graph.h"
#include "payload/payload.h"
#include "payload/values.h"

typedef struct text {
  char at[ECX_TEXT];
  size_t used;
} text;

/* Appends after a comma; drops the note if it does not fit. */
static void append_note(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append_note(text *t, const char *fmt, ...) {
  char piece[ECX_TEXT];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(piece, sizeof piece, fmt, args);
  va_end(args);
  size_t comma = t->used ? 2 : 0;
  if (n <= 0 || t->used + comma + (size_t)n >= sizeof t->at) return;
  memcpy(t->at + t->used, ", ", comma);
  memcpy(t->at + t->used + comma, piece, (size_t)n + 1);
  t->used += comma + (size_t)n;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void add_scheme(text *t, const ecx_value *v) {
  switch (v->scheme) {
  case ECX_PLAIN: break;
  case ECX_PER_TENSOR: append_note(t, "scale %g, zero point %d", v->scale,
                                   (int)v->zero_point); break;
  case ECX_PER_CHANNEL: append_note(t, "scales along dimension %u",
                                    (unsigned)v->channel_dim); break;
  case ECX_PER_GROUP: append_note(t, "scales of groups of %u", (unsigned)v->group_size); break;
  case ECX_PER_TOKEN: append_note(t, "scales computed at run time"); break;
  }
}

static void show_value(const ecx_value *v, const ec_backend_visitor *visitor) {
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  size_t bytes = 0;
  text note = {{0}, 0};
  add_scheme(&note, v);
  if (v->scales.key) append_note(&note, "scales in named data %.80s", v->scales.key);
  if (v->data.key) append_note(&note, "named data %.80s", v->data.key);
  for (size_t d = 0; d < v->shape.rank; d++) sizes[d] = (int64_t)v->shape.dims[d];
  ecx_value_bytes(v, &bytes);
  const ec_backend_inner_value shown = {
    .id = v->id, .argument = v->is_input || v->is_output ? v->external : UINT32_MAX,
    .constant = v->data.at != NULL, .dtype = ecx_dtypes[v->dtype].name,
    .note = note.used ? note.at : NULL, .rank = v->shape.rank, .nbytes = bytes, .sizes = sizes};
  visitor->value(visitor->user, &shown);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_operand(const ecx_kind *kind, uint16_t field) {
  bool is_operand = field == kind->layout->flags;
  for (unsigned i = 0; i < kind->inputs; i++)
    is_operand = is_operand || kind->layout->in[i] == field;
  for (unsigned i = 0; i < kind->layout->outputs; i++)
    is_operand = is_operand || kind->layout->out[i] == field;
  return is_operand;
}

/* The display of a field of a node's table: a number or list, float32 bits, or hidden. */
typedef enum format { NUMBER, FLOAT32, RANK } format;

static format format_of(const ecx_kind *kind, uint16_t field) {
  static const struct {
    uint8_t table;
    uint16_t id;
    format format;
  } rows[] = {
#define EC_FB_TABLE_BEGIN(table)
#define EC_FB_FIELD(table, id, name, kind, arg)
#define ECX_FIELD_F32(table, id, name) {ECX_TABLE_##table, (id), FLOAT32},
#define ECX_FIELD_RANK(table, id, name) {ECX_TABLE_##table, (id), RANK},
#define EC_FB_TABLE_END(table)
#include "payload/tables.def"
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef ECX_FIELD_F32
#undef ECX_FIELD_RANK
#undef EC_FB_TABLE_END
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].table == kind->table && rows[i].id == field) return rows[i].format;
  return NUMBER;
}

static void add_list(text *t, const char *name, ec_fb_vec items) {
  char list[ECX_TEXT / 2];
  size_t used = 0;
  for (uint32_t i = 0; i < items.count && used < sizeof list; i++) {
    int n = snprintf(list + used, sizeof list - used, i ? ", %u" : "%u",
                     (unsigned)ec_fb_vec_i32(items, i));
    used += n > 0 ? (size_t)n : 0;
  }
  if (items.count && used < sizeof list) append_note(t, "%s=[%s]", name, list);
}

/* Adds non-zero parameters of a node, by the names of tables.def. */
static void add_params(text *t, const ecx_node *n) {
  const ec_fb_schema *schema = ecx_node_schema(n->kind->number);
  for (size_t i = 0; i < schema->field_count; i++) {
    const ec_fb_field *f = &schema->fields[i];
    const format shown = format_of(n->kind, f->id);
    if (is_operand(n->kind, f->id) || shown == RANK) continue;
    if (f->type == EC_FB_VECTOR && f->size == 4)
      add_list(t, f->name, ec_fb_vector(n->params, f->id));
    if (f->type != EC_FB_SCALAR || f->size != 4 || !ec_fb_u32(n->params, f->id)) continue;
    if (shown == FLOAT32)
      append_note(t, "%s=%g", f->name, ec_fb_f32(n->params, f->id));
    else
      append_note(t, "%s=%u", f->name, (unsigned)ec_fb_u32(n->params, f->id));
  }
  if (n->min > -__builtin_inff()) append_note(t, "min=%g", n->min);
  if (n->max < __builtin_inff()) append_note(t, "max=%g", n->max);
  if (n->is_dead) append_note(t, "nobody reads it");
}

static void show_node(const ecx_graph *g, const ecx_node *n, const ec_backend_visitor *visitor) {
  uint32_t in[ECX_MAX_INPUTS], out[ECX_MAX_OUTPUTS];
  text note = {{0}, 0};
  ec_backend_inner_node shown = {.debug_handle = n->debug_handle, .name = n->kind->name,
                                 .inputs = in, .outputs = out};
  for (unsigned i = 0; i < n->kind->inputs; i++)
    if (n->in[i] != ECX_NONE) in[shown.input_count++] = g->values[n->in[i]].id;
  for (unsigned i = 0; i < n->kind->layout->outputs; i++)
    out[shown.output_count++] = g->values[n->out[i]].id;
  add_params(&note, n);
  shown.note = note.used ? note.at : NULL;
  visitor->node(visitor->user, &shown);
}

uint32_t ecx_describe(const ecx_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor) {
  ecx_payload payload;
  ecx_graph graph = {0};
  ECX_TRY(ecx_payload_open(c, what->payload, what->payload_size, &payload));
  uint32_t status = ecx_graph_open(c, &payload, &graph);
  for (uint32_t i = 0; !status && i < graph.value_count; i++)
    show_value(&graph.values[i], visitor);
  for (uint32_t i = 0; !status && i < graph.node_count; i++)
    show_node(&graph, &graph.nodes[i], visitor);
  ecx_graph_close(c->host, &graph);
  return status;
}
