/* A function of the MIL program: inputs, operations, and the order of arguments. Constants are
 * operands; names are those of values before them. */
#include "read.h"

#include <stdio.h>
#include <string.h>

#include "constexpr.h"
#include "function.h"

enum { TYPE = 1, INPUTS = 2, OUTPUTS = 3, ATTRIBUTES = 5, OPERATIONS = 3 };

static uint32_t define(ecm_model *m, ect_text name, ect_operand *o, uint32_t *out) {
  o->name = name;
  EC_BACKEND_TRY(ect_add_operand(m->g, o, out));
  return ect_names_set(&m->names, name, *out)
             ? (uint32_t)EC_BACKEND_OK
             : EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for values");
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Finds the operand of a binding: a value by name, or a constant. */
static uint32_t read_binding(ecm_model *m, ect_text argument, ect_text binding, uint32_t *out) {
  ecm_field content;
  if (ecm_wire_find(binding, 2, &content)) {
    const ect_operand o = ecm_read_constant(m, content.bytes);
    return ect_add_operand(m->g, &o, out);
  }
  if (!ecm_wire_find(binding, 1, &content))
    return ect_refuse(m->g, EC_BACKEND_NOT_SUPPORTED, "an argument has no name");
  *out = ect_names_find(&m->names, content.bytes);
  if (*out != UINT32_MAX) return EC_BACKEND_OK;
  return ect_refuse(m->g, EC_BACKEND_INVALID_PROGRAM,
                    "argument %.*s is '%.*s', which no operation before it computes",
                    ECT_CLIP(argument, 40), ECT_CLIP(content.bytes, 80));
}

/* Adds a link to the value of an argument, or to a list of several. */
static uint32_t read_argument(ecm_model *m, ect_text name, ect_text message) {
  ect_graph *g = m->g;
  ecm_field binding;
  ect_operand list = ect_operand_new(ECT_TENSOR_LIST);
  uint32_t operand = ECT_ABSENT;
  list.first = (uint32_t)g->item_count;
  while (ecm_wire_next(&message, &binding)) {
    if (binding.number != 1) continue;
    EC_BACKEND_TRY(read_binding(m, name, binding.bytes, &operand));
    EC_BACKEND_TRY(ect_add_item(g, operand));
    list.count++;
  }
  if (list.count != 1) EC_BACKEND_TRY(ect_add_operand(g, &list, &operand));
  return ect_add_link(g, name, operand);
}

/* Adds links to the entries of a map: arguments, or attributes. */
static uint32_t read_map(ecm_model *m, ect_text operation, uint32_t map, uint32_t *count) {
  ecm_field field, key, value;
  while (ecm_wire_next(&operation, &field)) {
    if (field.number != map || field.wire != ECM_BYTES || !ecm_wire_find(field.bytes, 1, &key) ||
        !ecm_wire_find(field.bytes, 2, &value))
      continue;
    ++*count;
    if (map == INPUTS) {
      EC_BACKEND_TRY(read_argument(m, key.bytes, value.bytes));
      continue;
    }
    const ect_operand o = ecm_read_constant(m, value.bytes);
    uint32_t operand;
    EC_BACKEND_TRY(ect_add_operand(m->g, &o, &operand));
    EC_BACKEND_TRY(ect_add_link(m->g, key.bytes, operand));
  }
  return EC_BACKEND_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Writes how the constant of an operation constexpr_* is stored: "uint4 constexpr_lut_to_dense". */
static const char *find_stored(ecm_model *m, const ect_node *n) {
  static const char *const names[] = {"indices", "quantized_data", "data", "nonzero_data",
                                      "source_val"};
  enum { STORED_BYTES = 100 };
  const ect_link *links = &m->g->links[n->first];
  char *text = ect_own(&m->g->program, STORED_BYTES);
  for (size_t k = 0; text && !*text && k < sizeof names / sizeof *names; k++)
    for (uint32_t i = 0; i < n->input_count + n->output_count + n->attribute_count; i++) {
      const ect_operand *o = &m->g->operands[links[i].operand];
      if (!o->name.size && o->source && ect_text_is(links[i].name, names[k]))
        snprintf(text, STORED_BYTES, "%s ", (const char *)o->source);
    }
  if (text)
    snprintf(text + strlen(text), STORED_BYTES - strlen(text), "%.*s", ECT_CLIP(n->op, 80));
  return text;
}

void ecm_note_stored(const ect_graph *g, const ect_operand *o, ect_note *note) {
  (void)g;
  if (o->source && o->is_constant && !o->data) ect_note_add(note, "%s", (const char *)o->source);
}

/* Defines the results of an operation. */
static uint32_t read_results(ecm_model *m, ect_text operation, ect_node *n) {
  ecm_field field, name, type;
  while (ecm_wire_next(&operation, &field)) {
    if (field.number != OUTPUTS) continue;
    if (!ecm_wire_find(field.bytes, 1, &name) || !ecm_wire_find(field.bytes, 2, &type))
      return ect_refuse(m->g, EC_BACKEND_NOT_SUPPORTED, "a result has no name or type");
    ect_operand o = ecm_read_type(m, type.bytes);
    uint32_t operand;
    n->number = ect_names_find(&m->handles, name.bytes);
    n->output_count++;
    EC_BACKEND_TRY(define(m, name.bytes, &o, &operand));
    EC_BACKEND_TRY(ect_add_link(m->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Defines the result of a const. */
static uint32_t read_const(ecm_model *m, ect_text operation) {
  ecm_field output, name;
  ect_text value;
  uint32_t operand;
  if (!ecm_wire_find(operation, OUTPUTS, &output) || !ecm_wire_find(output.bytes, 1, &name))
    return ect_refuse(m->g, EC_BACKEND_NOT_SUPPORTED, "the result has no name or type");
  if (!ecm_wire_entry(operation, ATTRIBUTES, "val", &value))
    return ect_refuse(m->g, EC_BACKEND_NOT_SUPPORTED, "no attribute 'val'");
  ect_operand o = ecm_read_constant(m, value);
  return define(m, name.bytes, &o, &operand);
}

/* A weight that is computed at load: its results are constants, and traces have no such node. */
static uint32_t read_constexpr(ecm_model *m, ect_text operation, ect_node *n) {
  EC_BACKEND_TRY(read_map(m, operation, ATTRIBUTES, &n->attribute_count));
  const char *stored = find_stored(m, n);
  n->shown = NULL;
  for (uint32_t i = 0; i < n->output_count; i++) {
    ect_operand *o = &m->g->operands[ect_outputs(m->g, n)[i].operand];
    o->is_constant = true;
    o->source = stored;
  }
  return EC_BACKEND_OK;
}

/* Returns a name with a NUL. */
static const char *copy_name(ecm_model *m, ect_text name) {
  const size_t size = name.size < 80 ? name.size : 80;
  char *text = ect_own(&m->g->program, size);
  if (text && size) memcpy(text, name.data, size);
  return text;
}

static uint32_t read_operation(ecm_model *m, ect_text message) {
  ect_graph *g = m->g;
  ecm_field type, output, name = {0};
  if (!ecm_wire_check(message) || !ecm_wire_find(message, TYPE, &type))
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "an operation of the MIL program has no type");
  if (ecm_wire_find(message, OUTPUTS, &output)) ecm_wire_find(output.bytes, 1, &name);
  snprintf(g->what, sizeof g->what, "%.*s (%.*s)", ECT_CLIP(name.bytes, 80),
           ECT_CLIP(type.bytes, 40));
  if (ect_text_is(type.bytes, "const")) return read_const(m, message);
  ect_node n = {.op = type.bytes, .shown = copy_name(m, type.bytes), .number = UINT32_MAX,
                .first = (uint32_t)g->link_count};
  EC_BACKEND_TRY(read_map(m, message, INPUTS, &n.input_count));
  EC_BACKEND_TRY(read_results(m, message, &n));
  if (ecm_is_constexpr(type.bytes)) EC_BACKEND_TRY(read_constexpr(m, message, &n));
  return ect_add_node(g, 0, &n);
}

static uint32_t read_block(ecm_model *m, ect_text block) {
  ecm_field field;
  while (ecm_wire_next(&block, &field))
    if (field.number == OPERATIONS) EC_BACKEND_TRY(read_operation(m, field.bytes));
  return block.size
             ? EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM,
                               "the MIL program's block ends with %zu unreadable bytes", block.size)
             : (uint32_t)EC_BACKEND_OK;
}

/* ---- the function ---------------------------------------------------------------------------- */

/* State begins as zeros. */
static uint32_t read_inputs(ecm_model *m, const ecm_function *f) {
  ecm_field field, name, type;
  for (ect_text rest = f->message; ecm_wire_next(&rest, &field);) {
    uint32_t operand;
    if (field.number != ECM_FUNCTION_INPUTS) continue;
    if (!ecm_wire_find(field.bytes, 1, &name) || !ecm_wire_find(field.bytes, 2, &type))
      return EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM, "an input has no name or type");
    ect_operand o = ecm_read_type(m, type.bytes);
    if (o.is_state) EC_BACKEND_TRY(ect_add_group(m->g, &(ect_group){0}, &o.group));
    if (o.is_state && (o.scalar_type < 0 || o.unknown))
      ect_set_fault(m->g, &o, EC_BACKEND_NOT_SUPPORTED,
                    "state of MIL dtype %u, or of unknown shape", (unsigned)o.dtype);
    EC_BACKEND_TRY(define(m, name.bytes, &o, &operand));
  }
  return EC_BACKEND_OK;
}

/* Adds links to the values of a list of names in metadata.json. */
static uint32_t link_names(ecm_model *m, const ecm_function *f, const char *member,
                           uint32_t *first, uint32_t *count) {
  uint32_t list = 0, t = 0;
  *first = (uint32_t)m->g->link_count;
  EC_BACKEND_TRY(ecm_function_names(m, f, member, &list, &t));
  for (; t; t = ect_json_next(&f->metadata, list, t)) {
    const ect_text name = ecm_function_text(f, t);
    const uint32_t operand = ect_names_find(&m->names, name);
    if (operand == UINT32_MAX)
      return EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM,
                             "metadata.json: '%.*s' of %s is not a value of the ML program",
                             ECT_CLIP(name, 80), member);
    EC_BACKEND_TRY(ect_add_link(m->g, (ect_text){0}, operand));
    ++*count;
  }
  return EC_BACKEND_OK;
}

static uint32_t read_function(ecm_model *m, const ecm_function *f) {
  ect_block b = {.name = {0}};
  uint32_t number;
  EC_BACKEND_TRY(read_inputs(m, f));
  EC_BACKEND_TRY(link_names(m, f, "inputNames", &b.first_input, &b.input_count));
  EC_BACKEND_TRY(ect_add_block(m->g, &b, &number));
  EC_BACKEND_TRY(read_block(m, f->block));
  return link_names(m, f, "outputNames", &m->g->blocks[0].first_output,
                    &m->g->blocks[0].output_count);
}

uint32_t ecm_read_payload(ect_graph *g, const ec_backend_init *what) {
  ecm_model m = {.g = g};
  ecm_function f;
  uint32_t status = ecm_model_open(&m, (ect_text){what->payload, what->payload_size});
  if (status == EC_BACKEND_OK) {
    status = ecm_function_open(&m, &f);
    if (status == EC_BACKEND_OK) status = read_function(&m, &f);
    ecm_function_close(&f);
  }
  ecm_model_close(&m);
  return status;
}
