/* Tensors and nodes of a graph, as a visitor receives them. */
#include "describe.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SHOWN = 64 /* operands of a node, items of a list */, NAME_BYTES = 48 };

typedef struct ids {
  uint32_t items[MAX_SHOWN];
  size_t count;
} ids;

static void add_id(ids *list, uint32_t id) {
  if (list->count < MAX_SHOWN) list->items[list->count++] = id;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const char *scalar_name(int32_t dtype) {
  switch (dtype) {
  case EC_DTYPE_FLOAT16: return "fp16";
  case EC_DTYPE_FLOAT32: return "fp32";
  case EC_DTYPE_FLOAT64: return "fp64";
  case EC_DTYPE_BFLOAT16: return "bf16";
  default: return ec_backend_dtype_size(dtype) ? ec_backend_dtype_name(dtype) : "unknown";
  }
}

/* `position`: among the delegate's arguments. */
static void show_tensor(const ect_graph *g, uint32_t id, uint32_t position,
                        const ec_backend_visitor *visitor) {
  const ect_operand *o = &g->operands[id];
  const bool is_known = o->is_constant || o->data || o->group != ECT_ABSENT;
  const char *key = o->group != ECT_ABSENT ? g->groups[o->group].key : NULL;
  ect_note note = {{0}, 0};
  size_t bytes;
  if (!ect_stored_bytes(o, &bytes)) bytes = 0;
  if (o->name.size) ect_note_add(&note, "%.*s", ECT_CLIP(o->name, 120));
  if (key) ect_note_add(&note, "named data %.80s", key);
  if (o->is_state) ect_note_add(&note, "state");
  if (o->unknown) ect_note_add(&note, "dynamic");
  if (g->format->note) g->format->note(g, o, &note);
  visitor->value(visitor->user,
                 &(ec_backend_inner_value){
                     .id = id, .argument = position, .constant = is_known && !o->is_state,
                     .dtype = o->dtype_name ? o->dtype_name : scalar_name(o->scalar_type),
                     .note = note.used ? note.at : NULL, .rank = o->rank, .nbytes = bytes,
                     .sizes = o->sizes});
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void note_list(const ect_operand *o, const char *name, ect_note *note) {
  int64_t items[MAX_SHOWN];
  const size_t all = o->width ? ect_number_count(o) : 0;
  const size_t count = all < MAX_SHOWN ? all : MAX_SHOWN;
  for (size_t i = 0; i < count; i++) items[i] = ect_number_at(o, i);
  ect_note_list(note, name, items, count);
}

/* Appends the elements of a small constant. */
static void note_elements(const ect_operand *o, ect_text argument, ect_note *note) {
  enum { MAX_NUMBERS = 8 };
  char name[NAME_BYTES];
  int64_t items[MAX_NUMBERS];
  const size_t count = o->data && !o->stored_bits ? ect_element_count(o) : 0;
  snprintf(name, sizeof name, "%.*s", ECT_CLIP(argument, 40));
  if (o->rank == 0 && count == 1) ect_note_add(note, "%s=%g", name, ect_element_at(o, 0));
  if (o->rank != 1 || count > MAX_NUMBERS || o->scalar_type != EC_DTYPE_INT32) return;
  for (size_t i = 0; i < count; i++) items[i] = (int64_t)ect_element_at(o, i);
  ect_note_list(note, name, items, count);
}

/* Appends an argument that is not a tensor. */
static void note_argument(const ect_operand *o, ect_text argument, ect_note *note) {
  char name[NAME_BYTES];
  double real;
  snprintf(name, sizeof name, "%.*s%s", ECT_CLIP(argument, 40), argument.size ? "=" : "");
  switch (o->kind) {
  case ECT_INT:
    if (o->name.size) ect_note_add(note, "%s%.*s", name, ECT_CLIP(o->name, 40));
    else ect_note_add(note, "%s%lld", name, (long long)o->bits);
    break;
  case ECT_DOUBLE:
    memcpy(&real, &o->bits, sizeof real);
    ect_note_add(note, "%s%g", name, real);
    break;
  case ECT_BOOL: ect_note_add(note, "%s%s", name, o->bits ? "True" : "False"); break;
  case ECT_STRING:
    ect_note_add(note, "%s'%.*s'", name, o->data_size < 40 ? (int)o->data_size : 40,
                 (const char *)o->data);
    break;
  case ECT_INT_LIST: name[strcspn(name, "=")] = '\0'; note_list(o, name, note); break;
  default: break;
  }
}

/* Adds the tensors of operands, and notes others. */
static void add_operands(const ect_graph *g, const ect_link *links, uint32_t count, ids *tensors,
                         ect_note *note) {
  for (uint32_t i = 0; i < count && i < MAX_SHOWN; i++) {
    const ect_operand *o = &g->operands[links[i].operand];
    const bool is_list = o->kind == ECT_TENSOR_LIST || o->kind == ECT_OPTIONAL_TENSOR_LIST;
    if (o->kind == ECT_TENSOR) add_id(tensors, links[i].operand);
    if (o->kind == ECT_TENSOR && note && links[i].name.size && o->data)
      note_elements(o, links[i].name, note);
    else if (note && o->kind != ECT_TENSOR) note_argument(o, links[i].name, note);
    for (uint32_t k = 0; is_list && k < o->count && k < MAX_SHOWN; k++) {
      const uint32_t item = g->items[o->first + k];
      if (item != ECT_ABSENT && g->operands[item].kind == ECT_TENSOR) add_id(tensors, item);
    }
  }
}

static void show_node(const ect_graph *g, const ect_node *n, const ec_backend_visitor *visitor) {
  ect_note note = {{0}, 0};
  ids inputs = {.count = 0}, outputs = {.count = 0};
  if (n->is_named) ect_note_add(&note, "%.*s", ECT_CLIP(n->name, 120));
  add_operands(g, ect_attributes(g, n), n->attribute_count, &inputs, &note);
  add_operands(g, ect_inputs(g, n), n->input_count, &inputs, &note);
  add_operands(g, ect_outputs(g, n), n->output_count, &outputs, NULL);
  visitor->node(visitor->user,
                &(ec_backend_inner_node){
                    .debug_handle = n->number, .name = n->shown, .note = note.used ? note.at : NULL,
                    .inputs = inputs.items, .outputs = outputs.items, .input_count = inputs.count,
                    .output_count = outputs.count});
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Sets the positions of arguments; the first one counts. */
static void set_positions(const ect_graph *g, uint32_t first, uint32_t count, uint32_t position,
                          uint32_t *positions) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t *at = &positions[g->links[first + i].operand];
    if (*at == ECT_ABSENT) *at = position + i;
  }
}

uint32_t ect_describe_graph(const ect_graph *g, const ec_backend_visitor *visitor) {
  const ect_block *b = &g->blocks[0];
  const ec_host *host = g->c.host;
  uint32_t *positions = host->alloc((g->operand_count + 1) * sizeof *positions);
  if (!positions)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu values",
                           g->operand_count);
  for (size_t i = 0; i < g->operand_count; i++) positions[i] = ECT_ABSENT;
  set_positions(g, b->first_input, b->input_count, 0, positions);
  set_positions(g, b->first_output, b->output_count, b->input_count, positions);
  for (uint32_t i = 0; i < g->operand_count; i++)
    if (g->operands[i].kind == ECT_TENSOR) show_tensor(g, i, positions[i], visitor);
  for (uint32_t at = b->first_node; at != ECT_ABSENT; at = g->nodes[at].next)
    if (g->nodes[at].shown) show_node(g, &g->nodes[at], visitor);
  host->free(positions);
  return EC_BACKEND_OK;
}
