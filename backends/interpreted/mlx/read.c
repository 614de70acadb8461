/* Tensors and nodes of a payload, as a graph. Tensors are registers (registers.h), but mutable
 * buffers are state: a node that writes one computes a new operand, which is copied to it. */
#include "read.h"

#include <stdio.h>
#include <string.h>

#include "../fb_text.h"
uint32_t emx_no_memory(emx_reader *r) {
  return ect_refuse(r->g, EC_BACKEND_ALLOCATION_FAILED, "no memory for the graph");
}

void emx_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size) {
  (void)g;
  snprintf(out, size, "node %u (%s)", (unsigned)n->number, n->shown ? n->shown : "copy to state");
}

/* ---- registers ------------------------------------------------------------------------------- */

uint32_t emx_set_register(emx_reader *r, uint32_t key, uint32_t operand) {
  return emx_set(&r->registers, key, operand) ? (uint32_t)EC_BACKEND_OK : emx_no_memory(r);
}

static bool is_buffer(const emx_reader *r, uint32_t tensor) {
  return tensor >= r->first_buffer && tensor < r->first_temporary;
}

/* Finds the operand of a register; `kind` and `limit` are those of its numbers. */
static uint32_t find_register(emx_reader *r, const char *kind, uint32_t number, uint32_t limit,
                              uint32_t first, uint32_t *out) {
  if (number >= limit)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "%s %u, the graph has %u", kind,
                      (unsigned)number, (unsigned)limit);
  *out = r->registers.operands[first + number];
  if (*out != ECT_ABSENT) return EC_BACKEND_OK;
  return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "%s %u is read before a node writes it", kind,
                    (unsigned)number);
}

uint32_t emx_find_tensor(emx_reader *r, uint32_t tensor, uint32_t *out) {
  return find_register(r, "tensor", tensor, r->registers.tensor_count, 0, out);
}

static uint32_t find_value(emx_reader *r, uint32_t value, uint32_t *out) {
  return find_register(r, "value", value, r->registers.value_count, r->registers.tensor_count, out);
}

uint32_t emx_write_tensor(emx_reader *r, uint32_t tensor, uint32_t *out) {
  ect_operand o = ect_operand_new(ECT_TENSOR);
  if (tensor >= r->registers.tensor_count)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "tensor %u, the graph has %u",
                      (unsigned)tensor, (unsigned)r->registers.tensor_count);
  o.first = tensor;
  EC_BACKEND_TRY(ect_add_operand(r->g, &o, out));
  return is_buffer(r, tensor) ? (uint32_t)EC_BACKEND_OK : emx_set_register(r, tensor, *out);
}

/* Adds the named operand of a value. */
static uint32_t add_value(emx_reader *r, uint32_t value, uint32_t *out) {
  enum { NAME_BYTES = 24 };
  ect_operand o = ect_number_new(ECT_INT, 0);
  char *name = ect_own(&r->g->program, NAME_BYTES);
  if (!name) return emx_no_memory(r);
  if (value >= r->registers.value_count)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "value %u, the graph has %u",
                      (unsigned)value, (unsigned)r->registers.value_count);
  snprintf(name, NAME_BYTES, "value %u", (unsigned)value);
  o.name = ect_text_of(name);
  o.sizes[0] = -1; /* its bound is unknown */
  EC_BACKEND_TRY(ect_add_operand(r->g, &o, out));
  return emx_set_register(r, r->registers.tensor_count + value, *out);
}

/* Adds a node that copies a new value to the state that a buffer is. */
static uint32_t keep_state(emx_reader *r, uint32_t tensor, uint32_t operand) {
  const ect_node n = {.first = (uint32_t)r->g->link_count, .number = r->number, .input_count = 1,
                      .output_count = 1};
  EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, r->registers.operands[tensor]));
  return ect_add_node(r->g, r->block, &n);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static uint32_t add_number(emx_reader *r, uint8_t kind, uint64_t bits, uint32_t *out) {
  ect_operand o = ect_number_new(kind, bits);
  return ect_add_operand(r->g, &o, out);
}

static uint64_t double_bits(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

uint32_t emx_read_int(emx_reader *r, ec_fb_table table, uint32_t *out) {
  if (ec_fb_bool(table, EMX_IntOrVid_is_vid))
    return find_value(r, ec_fb_u32(table, EMX_IntOrVid_vid), out);
  return add_number(r, ECT_INT, ec_fb_u64(table, EMX_IntOrVid_literal), out);
}

static uint32_t read_float(emx_reader *r, ec_fb_table table, uint32_t *out) {
  if (ec_fb_bool(table, EMX_FloatOrVid_is_vid))
    return find_value(r, ec_fb_u32(table, EMX_FloatOrVid_vid), out);
  return add_number(r, ECT_DOUBLE, ec_fb_u64(table, EMX_FloatOrVid_literal), out);
}

static uint32_t read_index(emx_reader *r, ec_fb_table table, uint32_t *out) {
  enum { LITERAL, VALUE, TENSOR };
  const uint8_t kind = ec_fb_u8(table, EMX_IntOrVidOrTid_kind);
  if (kind == LITERAL)
    return add_number(r, ECT_INT, ec_fb_u64(table, EMX_IntOrVidOrTid_literal), out);
  if (kind == VALUE) return find_value(r, ec_fb_u32(table, EMX_IntOrVidOrTid_vid), out);
  if (kind == TENSOR) return emx_find_tensor(r, ec_fb_u32(table, EMX_IntOrVidOrTid_tid), out);
  return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "an index of kind %u, expected 0 to 2",
                    (unsigned)kind);
}

/* Reads a table that is a number, or names a register. */
static uint32_t read_either(emx_reader *r, uint8_t kind, ec_fb_table table, uint32_t *out) {
  if (kind == EMX_TABLE_IntOrVid) return emx_read_int(r, table, out);
  if (kind == EMX_TABLE_FloatOrVid) return read_float(r, table, out);
  if (kind == EMX_TABLE_IntOrVidOrTid) return read_index(r, table, out);
  if (ec_fb_bool(table, EMX_VidOrTid_is_vid))
    return find_value(r, ec_fb_u32(table, EMX_VidOrTid_vid), out);
  return emx_find_tensor(r, ec_fb_u32(table, EMX_VidOrTid_tid), out);
}

/* Adds a list of operands: tensors that the node reads or writes, or numbers. */
static uint32_t read_list(emx_reader *r, uint8_t kind, ec_fb_vec items, bool is_output,
                          uint32_t *out) {
  ect_operand list = ect_operand_new(kind == EMX_VECTOR_TID ? ECT_TENSOR_LIST : ECT_INT_LIST);
  list.first = (uint32_t)r->g->item_count;
  for (list.count = 0; list.count < items.count; list.count++) {
    uint32_t item;
    if (kind == EMX_TABLES_IntOrVid)
      EC_BACKEND_TRY(emx_read_int(r, ec_fb_vec_table(items, list.count), &item));
    else if (is_output)
      EC_BACKEND_TRY(emx_write_tensor(r, (uint32_t)ec_fb_vec_i32(items, list.count), &item));
    else EC_BACKEND_TRY(emx_find_tensor(r, (uint32_t)ec_fb_vec_i32(items, list.count), &item));
    EC_BACKEND_TRY(ect_add_item(r->g, item));
  }
  return ect_add_operand(r->g, &list, out);
}

/* Reads a field that is there. */
static uint32_t read_field(emx_reader *r, ec_fb_table node, const ec_fb_field *field, uint8_t kind,
                           bool is_output, uint32_t *out) {
  const unsigned id = field->id;
  ect_operand o = ect_operand_new(ECT_NONE);
  switch (kind) {
  case EMX_SCALAR_TID:
    return is_output ? emx_write_tensor(r, ec_fb_u32(node, id), out)
                     : emx_find_tensor(r, ec_fb_u32(node, id), out);
  case EMX_SCALAR_VID:
    return is_output ? add_value(r, ec_fb_u32(node, id), out)
                     : find_value(r, ec_fb_u32(node, id), out);
  case EMX_SCALAR_I8: return add_number(r, ECT_INT, (uint64_t)ec_fb_i8(node, id), out);
  case EMX_SCALAR_U32: return add_number(r, ECT_INT, ec_fb_u32(node, id), out);
  case EMX_SCALAR_U64: return add_number(r, ECT_INT, ec_fb_u64(node, id), out);
  case EMX_SCALAR_I32: return add_number(r, ECT_INT, (uint64_t)ec_fb_i32(node, id), out);
  case EMX_SCALAR_BOOL: return add_number(r, ECT_BOOL, ec_fb_bool(node, id), out);
  case EMX_SCALAR_F32:
    return add_number(r, ECT_DOUBLE, double_bits((double)ec_fb_f32(node, id)), out);
  case EMX_VECTOR_TID:
  case EMX_TABLES_IntOrVid: return read_list(r, kind, ec_fb_vector(node, id), is_output, out);
  case EMX_VECTOR_I32:
    o = ect_list_new(ECT_INT_LIST, ec_fb_vector(node, id).items, ec_fb_vector(node, id).count, 4);
    break;
  case EMX_STRING_0: o = ect_text_new(ect_fb_text(node, id)); break;
  case EMX_TABLE_IntOrVid:
  case EMX_TABLE_FloatOrVid:
  case EMX_TABLE_VidOrTid:
  case EMX_TABLE_IntOrVidOrTid: return read_either(r, kind, ec_fb_child(node, id), out);
  default: break; /* of MetalKernel, which is refused */
  }
  return ect_add_operand(r->g, &o, out);
}

static bool is_output(const char *name) {
  return !strcmp(name, "out") || !strcmp(name, "outs") || !strcmp(name, "outputs");
}

/* Links the fields of a node that it reads, or writes. Results are made last: a node may write what
 * it reads. */
static uint32_t link_fields(emx_reader *r, ec_fb_table table, const emx_node_type *type,
                            bool outputs, uint32_t *count) {
  for (size_t i = 0; i < type->schema->field_count; i++) {
    const ec_fb_field *field = &type->schema->fields[i];
    uint32_t operand;
    if (is_output(field->name) != outputs) continue;
    if (!ec_fb_field_at(table, field->id)) {
      if (outputs && type->kinds[i] != EMX_VECTOR_TID)
        return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "no field '%s'", field->name);
      continue;
    }
    EC_BACKEND_TRY(read_field(r, table, field, type->kinds[i], outputs, &operand));
    EC_BACKEND_TRY(ect_add_link(r->g, ect_text_of(field->name), operand));
    ++*count;
  }
  return EC_BACKEND_OK;
}

/* Copies results to the buffers that the node names. */
static uint32_t keep_results(emx_reader *r, ec_fb_table table, const emx_node_type *type,
                             const ect_node *n) {
  uint32_t at = 0;
  for (size_t i = 0; i < type->schema->field_count; i++) {
    const ec_fb_field *field = &type->schema->fields[i];
    if (!is_output(field->name) || !ec_fb_field_at(table, field->id)) continue;
    const ect_link link = ect_outputs(r->g, n)[at++];
    if (type->kinds[i] == EMX_SCALAR_TID && is_buffer(r, ec_fb_u32(table, field->id)))
      EC_BACKEND_TRY(keep_state(r, ec_fb_u32(table, field->id), link.operand));
    const ec_fb_vec outs =
        type->kinds[i] == EMX_VECTOR_TID ? ec_fb_vector(table, field->id) : (ec_fb_vec){0};
    for (uint32_t k = 0; k < outs.count; k++)
      if (is_buffer(r, (uint32_t)ec_fb_vec_i32(outs, k)))
        EC_BACKEND_TRY(keep_state(r, (uint32_t)ec_fb_vec_i32(outs, k),
                                  r->g->items[r->g->operands[link.operand].first + k]));
  }
  return EC_BACKEND_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Returns the name of a type of nodes. */
static const char *type_name(const emx_node_type *type) { return type->schema->name; }

static uint32_t read_node(emx_reader *r, ec_fb_table instruction) {
  const uint8_t number = ec_fb_u8(instruction, EMX_Instruction_op_type);
  const emx_node_type *type = emx_find_node_type(number);
  ect_graph *g = r->g;
  ect_node n = {.number = r->number, .kind = number, .shown = type ? type_name(type) : NULL};
  if (type) emx_name_node(g, &n, g->what, sizeof g->what);
  else snprintf(g->what, sizeof g->what, "node %u", (unsigned)r->number);
  if (!type)
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED,
                      "type %u of the schema's union OpNode is not known here: ExecuTorch 1.5.1 "
                      "has 1 to 136",
                      (unsigned)number);
  const ec_fb_table table = ec_fb_union(instruction, EMX_Instruction_op, number);
  if (!table) return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "it has no fields");
  if (r->max_nodes-- == 0)
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "chains inside chains have too many nodes");
  r->number++;
  n.op = ect_text_of(n.shown);
  if (number == EMX_If) return emx_read_if(r, table, &n);
  if (number == EMX_Scan) return emx_read_scan(r, table, &n);
  n.first = (uint32_t)g->link_count;
  EC_BACKEND_TRY(link_fields(r, table, type, false, &n.input_count));
  EC_BACKEND_TRY(link_fields(r, table, type, true, &n.output_count));
  EC_BACKEND_TRY(ect_add_node(g, r->block, &n));
  return keep_results(r, table, type, &n);
}

uint32_t emx_read_chain(emx_reader *r, uint32_t chain) {
  if (chain >= r->chains.count)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "chain %u, the graph has %u",
                      (unsigned)chain, (unsigned)r->chains.count);
  if (r->depth == EMX_MAX_CHAINS)
    return ect_refuse(r->g, EC_BACKEND_NOT_SUPPORTED, "more than %d chains inside each other",
                      EMX_MAX_CHAINS);
  const ec_fb_vec nodes =
      ec_fb_vector(ec_fb_vec_table(r->chains, chain), EMX_InstructionChain_instructions);
  r->depth++;
  for (uint32_t i = 0; i < nodes.count; i++)
    EC_BACKEND_TRY(read_node(r, ec_fb_vec_table(nodes, i)));
  r->depth--;
  return EC_BACKEND_OK;
}
