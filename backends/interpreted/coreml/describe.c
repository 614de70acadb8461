/* A MIL program as text: tensors, and the operations that a trace reports. Nothing is translated,
 * so that operators that the translation lacks are shown, too. */
#include "describe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "function.h"
#include "node.h"

enum { INPUTS = 2, OUTPUTS = 3, ATTRIBUTES = 5, OPERATIONS = 3, TEXT = 320, MOST_SHOWN = 64,
       FEW = 8 };

typedef struct description {
  ecm_model *m;
  const ecm_function *f;
  const ec_backend_visitor *visitor;
  ect_names arguments; /* positions */
} description;

typedef struct text {
  char at[TEXT];
  size_t used;
} text;

/* Appends; drops the piece if it does not fit. */
static void append(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(text *t, const char *fmt, ...) {
  char piece[TEXT];
  va_list args;
  va_start(args, fmt);
  const int n = vsnprintf(piece, sizeof piece, fmt, args);
  va_end(args);
  if (n <= 0 || t->used + (size_t)n >= sizeof t->at) return;
  memcpy(t->at + t->used, piece, (size_t)n + 1);
  t->used += (size_t)n;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *dtype_name(int32_t mil) {
  switch (mil) {
  case ECM_BOOL: return "bool";
  case ECM_STRING: return "string";
  case ECM_FLOAT16: return "fp16";
  case ECM_FLOAT32: return "fp32";
  case ECM_INT8: return "int8";
  case ECM_INT16: return "int16";
  case ECM_INT32: return "int32";
  case ECM_UINT8: return "uint8";
  case ECM_INT4: return "int4";
  case ECM_UINT6: return "uint6";
  case ECM_UINT4: return "uint4";
  case ECM_UINT3: return "uint3";
  case ECM_UINT2: return "uint2";
  case ECM_UINT1: return "uint1";
  default: return "unknown";
  }
}

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
static void show_value(const description *d, uint32_t id, ecm_bytes name, const ecm_value *v,
                       const char *stored) {
  size_t bytes = 0;
  text note = {{0}, 0};
  ect_tensor_bytes(&v->type, &bytes);
  append(&note, "%.*s", ecm_clip(name, 120), (const char *)name.data);
  if (v->is_state) append(&note, ", state");
  if (v->unknown) append(&note, ", dynamic");
  if (*stored) append(&note, ", %s", stored);
  const ec_backend_inner_value shown = {
      .id = id, .argument = ect_names_find(&d->arguments, name), .constant = v->is_constant,
      .dtype = dtype_name(v->mil), .note = note.at, .rank = v->type.rank, .nbytes = bytes,
      .sizes = v->type.sizes};
  d->visitor->value(d->visitor->user, &shown);
}

/* Defines a value, and shows it if it is a tensor. */
static uint32_t define(const description *d, ecm_bytes name, ecm_value *v, const char *stored) {
  EC_BACKEND_TRY(ecm_define(d->m, name, v));
  if (v->mil != ECM_STRING) show_value(d, (uint32_t)d->m->value_count - 1, name, v, stored);
  return EC_BACKEND_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

typedef struct operands {
  uint32_t ids[MOST_SHOWN];
  size_t count;
} operands;

static void append_constant(text *note, ecm_bytes key, const ecm_value *v) {
  const size_t count = ecm_elements(v);
  const char *before = note->used ? ", " : "";
  const int shown = ecm_clip(key, 40);
  if (v->mil == ECM_STRING)
    append(note, "%s%.*s='%.*s'", before, shown, (const char *)key.data, ecm_clip(v->data, 40),
           (const char *)v->data.data);
  else if (v->type.rank == 0 && count == 1)
    append(note, "%s%.*s=%g", before, shown, (const char *)key.data, ecm_number_at(v, 0));
  else if (v->type.rank == 1 && count <= FEW && v->mil == ECM_INT32) {
    append(note, "%s%.*s=[", before, shown, (const char *)key.data);
    for (size_t i = 0; i < count; i++) append(note, i ? ", %g" : "%g", ecm_number_at(v, i));
    append(note, "]");
  }
}

/* Adds the values of an argument: tensors as operands, few constants to the note. */
static void add_argument(const description *d, ecm_bytes key, ecm_bytes argument, operands *in,
                         text *note) {
  ecm_field binding, content;
  while (ecm_wire_next(&argument, &binding)) {
    if (binding.number != 1 || !ecm_wire_find(binding.bytes, 1, &content)) continue;
    const uint32_t id = ect_names_find(&d->m->names, content.bytes);
    if (id == UINT32_MAX) continue;
    const ecm_value *v = &d->m->values[id];
    if (v->mil != ECM_STRING && in->count < MOST_SHOWN) in->ids[in->count++] = id;
    if (v->is_constant) append_constant(note, key, v);
  }
}

static void add_arguments(const description *d, ecm_bytes operation, operands *in, text *note) {
  ecm_field field, key, argument;
  while (ecm_wire_next(&operation, &field))
    if (field.number == INPUTS && ecm_wire_find(field.bytes, 1, &key) &&
        ecm_wire_find(field.bytes, 2, &argument))
      add_argument(d, key.bytes, argument.bytes, in, note);
}

/* Finds the compressed numbers of a constant among the attributes, and the inputs by value. */
static bool find_stored(ecm_bytes operation, ecm_bytes *message) {
  static const char *const names[] = {"indices", "quantized_data", "data", "nonzero_data",
                                      "source_val"};
  ecm_bytes argument;
  ecm_field binding, content;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (ecm_wire_entry(operation, ATTRIBUTES, names[i], message)) return true;
    if (!ecm_wire_entry(operation, INPUTS, names[i], &argument) ||
        !ecm_wire_find(argument, 1, &binding) || !ecm_wire_find(binding.bytes, 2, &content))
      continue;
    *message = content.bytes;
    return true;
  }
  return false;
}

/* Writes how the constant of an operation constexpr_* is stored. */
static void append_stored(const description *d, ecm_bytes operation, const char *name, text *out) {
  ecm_bytes message;
  ecm_field type;
  ecm_value v;
  if (find_stored(operation, &message) && ecm_wire_find(message, 2, &type) &&
      ecm_read_type(d->m, type.bytes, &v) == EC_BACKEND_OK)
    append(out, "%s ", dtype_name(v.mil));
  append(out, "%s", name);
}

static uint32_t add_results(const description *d, ecm_bytes operation, bool is_constant,
                            const char *stored, operands *out, uint32_t *handle) {
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
    if (out->count < MOST_SHOWN) out->ids[out->count++] = (uint32_t)d->m->value_count;
    EC_BACKEND_TRY(define(d, name.bytes, &v, stored));
  }
  return EC_BACKEND_OK;
}

static uint32_t show_operation(const description *d, ecm_bytes operation) {
  operands in = {.count = 0}, out = {.count = 0};
  text note = {{0}, 0}, name = {{0}, 0}, stored = {{0}, 0};
  ecm_field type;
  uint32_t handle = UINT32_MAX;
  if (!ecm_wire_find(operation, 1, &type)) type.bytes = (ecm_bytes){(const uint8_t *)"", 0};
  append(&name, "%.*s", ecm_clip(type.bytes, 80), (const char *)type.bytes.data);
  const bool is_decompressed = strncmp(name.at, "constexpr_", 10) == 0;
  const bool is_constant = is_decompressed || strcmp(name.at, "const") == 0;
  add_arguments(d, operation, &in, &note);
  if (is_decompressed) append_stored(d, operation, name.at, &stored);
  EC_BACKEND_TRY(add_results(d, operation, is_constant, stored.at, &out, &handle));
  if (is_constant) return EC_BACKEND_OK;
  const ec_backend_inner_node shown = {
      .debug_handle = handle, .name = name.at, .note = note.used ? note.at : NULL,
      .inputs = in.ids, .outputs = out.ids, .input_count = in.count, .output_count = out.count};
  d->visitor->node(d->visitor->user, &shown);
  return EC_BACKEND_OK;
}

/* ---- the function ---------------------------------------------------------------------------- */

static uint32_t show_input(void *user, ecm_bytes name, ecm_bytes type) {
  const description *d = user;
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
  description d = {m, &f, visitor, {.host = m->c.host}};
  if (m->bound < 0) m->bound = 0;
  uint32_t status = ecm_function_open(m, &f);
  if (status == EC_BACKEND_OK) status = show_function(&d);
  ect_names_free(&d.arguments);
  ecm_function_close(&f);
  return status;
}
