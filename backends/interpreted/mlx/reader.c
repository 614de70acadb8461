/* Constants, inputs, buffers and outputs of a payload. */
#include "reader.h"

#include <stdio.h>
#include <string.h>

#include "../fb_text.h"
#include "read.h"

#define FAIL(r, ...) EC_BACKEND_FAIL(&(r)->g->c, EC_BACKEND_INVALID_PROGRAM, __VA_ARGS__)

enum { NEWEST_VERSION = 1 };
enum { SLOT_TENSOR, SLOT_INT, SLOT_FLOAT, SLOT_BOOL };

/* ---- tensors with a meta --------------------------------------------------------------------- */

/* Returns true for c10::ScalarTypes that MLX has. */
static bool is_known(int32_t dtype) {
  return ec_backend_dtype_size(dtype) != 0 && dtype != EC_DTYPE_FLOAT64 &&
         dtype != EC_DTYPE_COMPLEX64 && dtype != EC_DTYPE_COMPLEX128;
}

/* Checks that a dim_order, if there is one, is row-major. */
static bool is_row_major(ec_fb_vec order) {
  for (uint32_t d = 0; d < order.count; d++)
    if (order.items[d] != d) return false;
  return true;
}

/* Fills dtype and sizes; a size without a bound is -1. */
static void read_meta(emx_reader *r, uint32_t tensor, ect_operand *o) {
  const ec_fb_table meta = ec_fb_vec_table(r->metas, tensor);
  const ec_fb_vec shape = ec_fb_vector(meta, EMX_TensorMeta_shape);
  o->source = meta;
  o->scalar_type = o->border_type = ec_fb_i8(meta, EMX_TensorMeta_scalar_type);
  o->rank = shape.count < ECT_MAX_RANK ? shape.count : ECT_MAX_RANK;
  if (!is_known(o->scalar_type) || shape.count > ECT_MAX_RANK)
    ect_set_fault(r->g, o, EC_BACKEND_NOT_SUPPORTED,
                  "tensor %u '%.*s' has ScalarType %d and %u dimensions, expected a type of MLX "
                  "and at most %d",
                  (unsigned)tensor, ECT_CLIP(o->name, 80), (int)o->scalar_type,
                  (unsigned)shape.count, ECT_MAX_RANK);
  if (!is_row_major(ec_fb_vector(meta, EMX_TensorMeta_dim_order)))
    ect_set_fault(r->g, o, EC_BACKEND_NOT_SUPPORTED,
                  "tensor %u '%.*s' has another dim_order than 0, 1, ...", (unsigned)tensor,
                  ECT_CLIP(o->name, 80));
  for (uint32_t d = 0; d < o->rank; d++) {
    const ec_fb_table dim = ec_fb_vec_table(shape, d);
    o->sizes[d] = (int32_t)ec_fb_get(dim, EMX_ShapeDim_value, 4, UINT32_MAX);
    if (o->sizes[d] >= 0) continue;
    o->is_dynamic = true;
    o->sizes[d] = (int32_t)ec_fb_get(dim, EMX_ShapeDim_max_value, 4, UINT32_MAX);
    if (o->sizes[d] < 0) o->sizes[d] = -1;
    o->unknown += o->sizes[d] < 0;
  }
}

/* `first` of a result is its register. */
void emx_note(const ect_graph *g, const ect_operand *o, ect_note *note) {
  const ec_fb_vec shape = o->source ? ec_fb_vector(o->source, EMX_TensorMeta_shape)
                                    : (ec_fb_vec){0};
  (void)g;
  if (!o->source && !o->is_state) ect_note_add(note, "tensor %u", (unsigned)o->first);
  if (o->is_state) ect_note_add(note, "zeros at load: MLX payloads have no initial values");
  for (uint32_t d = 0; d < o->rank && d < shape.count && o->is_dynamic; d++) {
    const ec_fb_table dim = ec_fb_vec_table(shape, d);
    if ((int32_t)ec_fb_get(dim, EMX_ShapeDim_value, 4, UINT32_MAX) < 0)
      ect_note_add(note, "at least %d in dimension %u",
                   (int)ec_fb_i32(dim, EMX_ShapeDim_min_value), (unsigned)d);
  }
}

/* Adds a constant, input or buffer. */
static uint32_t add_known(emx_reader *r, uint32_t tensor, const ect_text *names,
                          const ect_group *group) {
  ect_operand o = ect_operand_new(ECT_TENSOR);
  uint32_t number;
  o.name = names[tensor];
  o.is_state = group && !group->key;
  read_meta(r, tensor, &o);
  o.border_type = -1;
  if (group && o.is_dynamic)
    ect_set_fault(r->g, &o, EC_BACKEND_INVALID_PROGRAM,
                  "tensor %u '%.*s' has sizes that are not fixed", (unsigned)tensor,
                  ECT_CLIP(o.name, 80));
  if (group) EC_BACKEND_TRY(ect_add_group(r->g, group, &o.group));
  EC_BACKEND_TRY(ect_add_operand(r->g, &o, &number));
  r->registers.operands[tensor] = number;
  return EC_BACKEND_OK;
}

/* Finds names of tensors. Constants need theirs: it is the key of their bytes. */
static uint32_t read_names(emx_reader *r, ect_text *names) {
  const ec_fb_vec slots = ec_fb_vector(r->graph, EMX_MLXGraph_named_slots);
  for (uint32_t i = 0; i < slots.count; i++) {
    const ec_fb_table named = ec_fb_vec_table(slots, i);
    const ec_fb_table slot = ec_fb_child(named, EMX_NamedSlot_slot);
    const uint32_t tensor = ec_fb_u32(slot, EMX_SlotVariant_idx);
    if (!slot || ec_fb_u8(slot, EMX_SlotVariant_slot_type) != SLOT_TENSOR) continue;
    if (tensor >= r->first_temporary)
      return FAIL(r, "payload: name '%.*s' of tensor %u, which has no shape",
                  ECT_CLIP(ect_fb_text(named, EMX_NamedSlot_name), 80), (unsigned)tensor);
    names[tensor] = ect_fb_text(named, EMX_NamedSlot_name);
  }
  return EC_BACKEND_OK;
}

static uint32_t add_tensors(emx_reader *r, const ect_text *names) {
  const uint32_t constants = ec_fb_u32(r->graph, EMX_MLXGraph_num_constant_tensors);
  const uint32_t inputs = ec_fb_u32(r->graph, EMX_MLXGraph_num_input_tensors);
  for (uint32_t i = 0; i < constants; i++) {
    const ect_group group = {.key = (const char *)names[i].data};
    if (!names[i].size) return FAIL(r, "payload: constant %u has no name", (unsigned)i);
    EC_BACKEND_TRY(add_known(r, i, names, &group));
  }
  for (uint32_t i = 0; i < inputs; i++)
    EC_BACKEND_TRY(add_known(r, constants + i, names, NULL));
  for (uint32_t i = r->first_buffer; i < r->first_temporary; i++)
    EC_BACKEND_TRY(add_known(r, i, names, &(ect_group){0}));
  return EC_BACKEND_OK;
}

/* ---- arguments of the delegate --------------------------------------------------------------- */

static uint32_t read_inputs(emx_reader *r, ec_fb_vec map) {
  const uint32_t first = ec_fb_u32(r->graph, EMX_MLXGraph_num_constant_tensors);
  const uint32_t count = ec_fb_u32(r->graph, EMX_MLXGraph_num_input_tensors);
  for (uint32_t i = 0; i < map.count; i++) {
    const ec_fb_table slot = ec_fb_vec_table(map, i);
    const uint32_t number = ec_fb_u32(slot, EMX_SlotVariant_idx);
    const uint8_t type = ec_fb_u8(slot, EMX_SlotVariant_slot_type);
    uint32_t operand;
    if (type != SLOT_TENSOR && type != SLOT_INT)
      return FAIL(r, "input %u has slot type %u, expected a tensor (0) or an int (1)", (unsigned)i,
                  (unsigned)type);
    if (type == SLOT_TENSOR ? number < first || number - first >= count
                            : number >= r->registers.value_count)
      return FAIL(r, "input %u is %s %u, which is none of the graph's inputs", (unsigned)i,
                  type == SLOT_TENSOR ? "tensor" : "value", (unsigned)number);
    if (type == SLOT_TENSOR) operand = r->registers.operands[number];
    else {
      ect_operand o = ect_number_new(ECT_INT, 0);
      o.name = ect_text_of("an input");
      o.sizes[0] = -1;
      EC_BACKEND_TRY(ect_add_operand(r->g, &o, &operand));
      r->registers.operands[r->registers.tensor_count + number] = operand;
    }
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

static uint32_t read_outputs(emx_reader *r, ec_fb_vec map) {
  for (uint32_t i = 0; i < map.count; i++) {
    const ec_fb_table slot = ec_fb_vec_table(map, i);
    const uint32_t number = ec_fb_u32(slot, EMX_SlotVariant_idx);
    const uint8_t type = ec_fb_u8(slot, EMX_SlotVariant_slot_type);
    const bool is_tensor = type == SLOT_TENSOR;
    const uint32_t limit = is_tensor ? r->registers.tensor_count : r->registers.value_count;
    if ((!is_tensor && type != SLOT_INT) || number >= limit)
      return FAIL(r, "output %u is number %u of slot type %u, the graph has %u", (unsigned)i,
                  (unsigned)number, (unsigned)type, (unsigned)limit);
    const uint32_t operand =
        r->registers.operands[number + (is_tensor ? 0 : r->registers.tensor_count)];
    if (operand == ECT_ABSENT)
      return FAIL(r, "output %u, %s %u, is written by no node", (unsigned)i,
                  is_tensor ? "tensor" : "value", (unsigned)number);
    if (is_tensor && number < r->first_temporary) {
      ect_operand meta = ect_operand_new(ECT_TENSOR);
      read_meta(r, number, &meta);
      if (meta.fault) return EC_BACKEND_FAIL(&r->g->c, meta.status, "%s", meta.fault);
      r->g->operands[operand].border_type = meta.scalar_type;
    }
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Adds up the counts of tensors. The payload's size bounds them. */
static uint32_t count_tensors(emx_reader *r, size_t size, uint32_t *tensors, uint32_t *values) {
  static const unsigned ids[] = {
      EMX_MLXGraph_num_constant_tensors, EMX_MLXGraph_num_input_tensors,
      EMX_MLXGraph_num_output_tensors, EMX_MLXGraph_num_mutable_buffer_tensors,
      EMX_MLXGraph_num_temp_tensors};
  uint64_t sums[6] = {0};
  for (size_t i = 0; i < 5; i++) sums[i + 1] = sums[i] + ec_fb_u32(r->graph, ids[i]);
  const uint32_t value_count = ec_fb_u32(r->graph, EMX_MLXGraph_num_values);
  if (sums[5] > size || value_count > size)
    return FAIL(r, "payload: %llu tensors and %u values in %zu bytes", (unsigned long long)sums[5],
                (unsigned)value_count, size);
  if (r->metas.count < sums[4])
    return FAIL(r, "payload: tensor_meta has %u items for %llu tensors", (unsigned)r->metas.count,
                (unsigned long long)sums[4]);
  r->first_buffer = (uint32_t)sums[3];
  r->first_temporary = (uint32_t)sums[4];
  *tensors = (uint32_t)sums[5];
  *values = value_count;
  return EC_BACKEND_OK;
}

/* Returns the number of instructions. Those of the first chain are numbered from there on: a node
 * of the main chain has its place there. */
static uint32_t count_nodes(const emx_reader *r) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->chains.count; i++)
    count += ec_fb_vector(ec_fb_vec_table(r->chains, i), EMX_InstructionChain_instructions).count;
  return count;
}

/* Reads the chains: what the first one computes at load is computed before the other. */
static uint32_t read_graph(emx_reader *r) {
  const ec_fb_vec inputs = ec_fb_vector(r->graph, EMX_MLXGraph_input_map);
  const ec_fb_vec outputs = ec_fb_vector(r->graph, EMX_MLXGraph_output_map);
  const int32_t init = (int32_t)ec_fb_get(r->graph, EMX_MLXGraph_init_chain_idx, 4, UINT32_MAX);
  const ect_block b = {.first_input = (uint32_t)r->g->link_count, .input_count = inputs.count,
                       .output_count = outputs.count};
  EC_BACKEND_TRY(ect_add_block(r->g, &b, &r->block));
  EC_BACKEND_TRY(read_inputs(r, inputs));
  snprintf(r->g->what, sizeof r->g->what, "payload");
  r->number = count_nodes(r);
  if (init >= 0) EC_BACKEND_TRY(emx_read_chain(r, (uint32_t)init));
  snprintf(r->g->what, sizeof r->g->what, "payload");
  r->number = 0;
  EC_BACKEND_TRY(emx_read_chain(r, ec_fb_u32(r->graph, EMX_MLXGraph_main_chain_idx)));
  r->g->blocks[0].first_output = (uint32_t)r->g->link_count;
  return read_outputs(r, outputs);
}

static uint32_t read_tensors(emx_reader *r) {
  ect_text *names = r->g->c.host->alloc((r->first_temporary + 1u) * sizeof *names);
  if (!names) return emx_no_memory(r);
  uint32_t status = read_names(r, names);
  if (status == EC_BACKEND_OK) status = add_tensors(r, names);
  r->g->c.host->free(names);
  return status;
}

uint32_t emx_read(ect_graph *g, const ec_backend_init *what) {
  const uint8_t *bytes;
  size_t size;
  ec_error err = {0};
  uint32_t tensors = 0, values = 0;
  EC_BACKEND_TRY(emx_read_header(&g->c, what->payload, what->payload_size, &bytes, &size));
  ec_status verified = ec_fb_verify(bytes, size, emx_payload_schema(), "payload", &err);
  if (verified == EC_OK)
    verified = ec_fb_check_text_version(ec_fb_root(bytes), EMX_MLXGraph_version, NEWEST_VERSION,
                                        EC_DELEGATE_INCOMPATIBLE, &err);
  if (verified != EC_OK) return EC_BACKEND_FAIL(&g->c, (uint32_t)verified, "%s", err.message);
  emx_reader r = {.g = g, .graph = ec_fb_root(bytes), .max_nodes = size};
  r.chains = ec_fb_vector(r.graph, EMX_MLXGraph_instruction_chains);
  r.metas = ec_fb_vector(r.graph, EMX_MLXGraph_tensor_meta);
  EC_BACKEND_TRY(count_tensors(&r, size, &tensors, &values));
  uint32_t status = emx_registers_open(&r.registers, g->c.host, tensors, values)
                        ? (uint32_t)EC_BACKEND_OK
                        : emx_no_memory(&r);
  if (status == EC_BACKEND_OK) status = read_tensors(&r);
  if (status == EC_BACKEND_OK) status = read_graph(&r);
  emx_registers_close(&r.registers);
  return status;
}
