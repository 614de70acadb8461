/* A MIL program as text: tensors, and the operations that a trace reports. Nothing is translated,
 * so that operators that the translation lacks are shown, too. */
#include "describe.h"

#include <stdio.h>
#include <string.h>

#include "../show.h"
#include "constexpr.h"
#include "function.h"
#include "node.h"

enum { INPUTS = 2, OUTPUTS = 3, ATTRIBUTES = 5, OPERATIONS = 3, FEW = 8, NAME = 81 };

typedef struct description {
  ecm_model *m;
  const ecm_function *f;
  ect_show show;
  ect_names arguments; /* positions */
} description;

/* ---- values ---------------------------------------------------------------------------------- */

/* Reads positions among the delegate's arguments by name. */
static uint32_t read_positions(description *d, const char *member, uint32_t *position) {
  uint32_t list = 0, t = 0;
  EC_BACKEND_TRY(ecm_function_names(d->m, d->f, member, &list, &t));
  for (; t; t = ecm_json_next(&d->f->metadata, list, t))
    if (!ect_names_set(&d->arguments, ecm_function_text(d->f, t), (*position)++))
      return EC_BACKEND_FAIL(&d->m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for names");
  return EC_BACKEND_OK;
}

/* `stored`: how a constant that is decompressed is in the file, "uint4 constexpr_lut_to_dense". */
static void show_value(description *d, uint32_t id, ecm_bytes name, const ecm_value *v,
                       const char *stored) {
  ect_note note = {{0}, 0};
  const ect_note of_node = d->show.note; /* of the node that has the value as its result */
  size_t bytes = 0;
  ect_tensor_bytes(&v->type, &bytes);
  ect_note_add(&note, "%.*s", ecm_clip(name, 120), (const char *)name.data);
  if (v->is_state) ect_note_add(&note, "state");
  if (v->unknown) ect_note_add(&note, "dynamic");
  if (*stored) ect_note_add(&note, "%s", stored);
  d->show.note = note;
  ect_show_tensor(&d->show,
                  &(ec_backend_inner_value){.id = id,
                                            .argument = ect_names_find(&d->arguments, name),
                                            .constant = v->is_constant,
                                            .dtype = ecm_dtype_name(v->mil), .rank = v->type.rank,
                                            .nbytes = bytes, .sizes = v->type.sizes});
  d->show.note = of_node;
}

/* Defines a value, and shows it if it is a tensor. */
static uint32_t define(description *d, ecm_bytes name, ecm_value *v, const char *stored) {
  EC_BACKEND_TRY(ecm_define(d->m, name, v));
  if (v->mil != ECM_STRING) show_value(d, (uint32_t)d->m->value_count - 1, name, v, stored);
  return EC_BACKEND_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void note_constant(ect_note *note, ecm_bytes key, const ecm_value *v) {
  char name[NAME];
  int64_t items[FEW];
  const size_t count = ecm_elements(v);
  snprintf(name, sizeof name, "%.*s", ecm_clip(key, 40), (const char *)key.data);
  if (v->mil == ECM_STRING)
    ect_note_add(note, "%s='%.*s'", name, ecm_clip(v->data, 40), (const char *)v->data.data);
  else if (v->type.rank == 0 && count == 1) ect_note_add(note, "%s=%g", name, ecm_number_at(v, 0));
  else if (v->type.rank == 1 && count <= FEW && v->mil == ECM_INT32) {
    for (size_t i = 0; i < count; i++) items[i] = (int64_t)ecm_number_at(v, i);
    ect_note_list(note, name, items, count);
  }
}

/* Adds the values of an argument: tensors as operands, few constants to the note. */
static void add_argument(description *d, ecm_bytes key, ecm_bytes argument) {
  ecm_field binding, content;
  while (ecm_wire_next(&argument, &binding)) {
    if (binding.number != 1 || !ecm_wire_find(binding.bytes, 1, &content)) continue;
    const uint32_t id = ect_names_find(&d->m->names, content.bytes);
    if (id == UINT32_MAX) continue;
    const ecm_value *v = &d->m->values[id];
    if (v->mil != ECM_STRING) ect_show_operand(&d->show.inputs, id);
    if (v->is_constant) note_constant(&d->show.note, key, v);
  }
}

static void add_arguments(description *d, ecm_bytes operation) {
  ecm_field field, key, argument;
  while (ecm_wire_next(&operation, &field))
    if (field.number == INPUTS && ecm_wire_find(field.bytes, 1, &key) &&
        ecm_wire_find(field.bytes, 2, &argument))
      add_argument(d, key.bytes, argument.bytes);
}

/* Writes how the constant of an operation constexpr_* is stored. */
static void write_stored(const description *d, ecm_bytes operation, const char *name,
                         ect_note *out) {
  static const char *const names[] = {"indices", "quantized_data", "data", "nonzero_data",
                                      "source_val"};
  ecm_bytes message;
  ecm_field type;
  ecm_value v;
  size_t i = 0;
  while (i < sizeof names / sizeof *names && !ecm_find_inline(operation, names[i], &message)) i++;
  if (i < sizeof names / sizeof *names && ecm_wire_find(message, 2, &type) &&
      ecm_read_type(d->m, type.bytes, &v) == EC_BACKEND_OK)
    ect_note_add(out, "%s %s", ecm_dtype_name(v.mil), name);
  else ect_note_add(out, "%s", name);
}

static uint32_t add_results(description *d, ecm_bytes operation, bool is_constant,
                            const char *stored, uint32_t *handle) {
  ecm_field field, name, type;
  ecm_value v;
  ecm_bytes content;
  while (ecm_wire_next(&operation, &field)) {
    if (field.number != OUTPUTS || !ecm_wire_find(field.bytes, 1, &name) ||
        !ecm_wire_find(field.bytes, 2, &type))
      continue;
    if (ecm_read_type(d->m, type.bytes, &v) != EC_BACKEND_OK) v.type.rank = 0;
    v.is_constant = is_constant;
    if (is_constant && ecm_wire_entry(operation, ATTRIBUTES, "val", &content) &&
        ecm_read_constant(d->m, content, &v) != EC_BACKEND_OK)
      v.data.size = 0;
    *handle = ect_names_find(&d->m->handles, name.bytes);
    ect_show_operand(&d->show.outputs, (uint32_t)d->m->value_count);
    EC_BACKEND_TRY(define(d, name.bytes, &v, stored));
  }
  return EC_BACKEND_OK;
}

static uint32_t show_operation(description *d, ecm_bytes operation) {
  char name[NAME];
  ect_note stored = {{0}, 0};
  ecm_field type;
  uint32_t handle = UINT32_MAX;
  if (!ecm_wire_find(operation, 1, &type)) type.bytes = (ecm_bytes){(const uint8_t *)"", 0};
  snprintf(name, sizeof name, "%.*s", ecm_clip(type.bytes, 80), (const char *)type.bytes.data);
  const bool is_decompressed = ecm_is_constexpr(type.bytes);
  const bool is_constant = is_decompressed || strcmp(name, "const") == 0;
  d->show.note.used = d->show.inputs.count = d->show.outputs.count = 0;
  add_arguments(d, operation);
  if (is_decompressed) write_stored(d, operation, name, &stored);
  EC_BACKEND_TRY(add_results(d, operation, is_constant, stored.at, &handle));
  if (!is_constant) ect_show_node(&d->show, handle, name);
  return EC_BACKEND_OK;
}

/* ---- the function ---------------------------------------------------------------------------- */

static uint32_t show_input(void *user, ecm_bytes name, ecm_bytes type) {
  description *d = user;
  ecm_value v;
  EC_BACKEND_TRY(ecm_read_type(d->m, type, &v));
  return define(d, name, &v, "");
}

static uint32_t show_function(description *d) {
  ecm_field field;
  uint32_t position = 0;
  EC_BACKEND_TRY(read_positions(d, "inputNames", &position));
  EC_BACKEND_TRY(read_positions(d, "outputNames", &position));
  EC_BACKEND_TRY(ecm_function_inputs(d->m, d->f, show_input, d));
  for (ecm_bytes rest = d->f->block; ecm_wire_next(&rest, &field);)
    if (field.number == OPERATIONS && field.wire == ECM_BYTES)
      EC_BACKEND_TRY(show_operation(d, field.bytes));
  return EC_BACKEND_OK;
}

uint32_t ecm_describe(void *graph, const ec_backend_visitor *visitor) {
  ecm_model *m = graph;
  ecm_function f;
  description d = {m, &f, {.visitor = visitor}, {.host = m->c.host}};
  if (m->bound < 0) m->bound = 0;
  uint32_t status = ecm_function_open(m, &f);
  if (status == EC_BACKEND_OK) status = show_function(&d);
  ect_names_free(&d.arguments);
  ecm_function_close(&f);
  return status;
}
