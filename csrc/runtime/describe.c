/* Descriptions of programs and methods, from the file alone: no method is loaded, no memory
 * planned, no backend asked for more than whether it is there. */
#include <string.h>

#include "backend/registry.h"
#include "core/checked.h"
#include "runtime/impl.h"

static void fill_tensor(const ec_tensor *t, ec_fb_table table, ec_tensor_info *out) {
  *out = (ec_tensor_info){
      .name = ec_tensor_fqn(table),
      .dtype = ec_tensor_dtype(t),
      .rank = t->rank,
      .dynamism = (ec_dynamism)t->dynamism,
      .is_memory_planned = ec_fb_child(table, EC_PTE_Tensor_allocation_info) != NULL,
      .nbytes = ec_tensor_nbytes(t),
  };
  memcpy(out->sizes, t->sizes, sizeof t->sizes);
  memcpy(out->dim_order, t->dim_order, sizeof t->dim_order);
}

ec_status ec_describe_value(ec_fb_table value, ec_value_info *out, ec_error *err) {
  ec_tensor t;
  EC_TRY(ec_read_kind(value, &out->kind, err));
  ec_fb_table body = ec_fb_child(value, EC_PTE_EValue_val);
  out->scalar.kind = out->kind;
  switch (out->kind) {
  case EC_KIND_TENSOR:
    EC_TRY(ec_read_tensor(body, &t, err));
    fill_tensor(&t, body, &out->tensor);
    break;
  case EC_KIND_INT: out->scalar.as.i = ec_fb_i64(body, EC_PTE_Int_int_val); break;
  case EC_KIND_DOUBLE: out->scalar.as.d = ec_fb_f64(body, EC_PTE_Double_double_val); break;
  case EC_KIND_BOOL: out->scalar.as.b = ec_fb_bool(body, EC_PTE_Bool_bool_val); break;
  case EC_KIND_STRING: out->string = ec_fb_string(body, EC_PTE_String_string_val); break;
  default: break;
  }
  return EC_OK;
}

static ec_status describe_list(ec_method_info *info, ec_fb_table plan, unsigned field,
                               const char *what, ec_value_info **out, size_t *count,
                               ec_error *err) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  ec_fb_vec indices = ec_fb_vector(plan, field);
  EC_TRY(ec_arena_array(&info->arena, indices.count, sizeof **out, what, out, err));
  *count = indices.count;
  for (uint32_t i = 0; i < indices.count; i++) {
    int32_t at = ec_fb_vec_i32(indices, i);
    if (at < 0 || (uint32_t)at >= values.count)
      return ec_fail(err, EC_INVALID_PROGRAM, "%s %u is value %d of %u", what, i, at,
                     values.count);
    ec_status status = ec_describe_value(ec_fb_vec_table(values, (uint32_t)at), &(*out)[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "%s %u", what, i);
  }
  return EC_OK;
}

/* Named tensors, and the bytes of constants. */
static ec_status describe_values(ec_method_info *info, ec_fb_table plan, ec_error *err) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  EC_TRY(ec_arena_array(&info->arena, values.count, sizeof *info->attributes, "attributes",
                        &info->attributes, err));
  info->value_count = values.count;
  for (uint32_t i = 0; i < values.count; i++) {
    ec_tensor t;
    ec_fb_table value = ec_fb_vec_table(values, i);
    if (ec_fb_u8(value, EC_PTE_EValue_val_type) != EC_PTE_TENSOR) continue;
    ec_fb_table body = ec_fb_child(value, EC_PTE_EValue_val);
    ec_status status = ec_read_tensor(body, &t, err);
    if (status != EC_OK) return ec_fail_in(err, status, "value %u", i);
    if (ec_tensor_fqn(body)) fill_tensor(&t, body, &info->attributes[info->attribute_count++]);
    if (ec_fb_u32(body, EC_PTE_Tensor_data_buffer_idx) &&
        !ec_fb_child(body, EC_PTE_Tensor_allocation_info))
      info->constant_bytes += ec_tensor_nbytes(&t);
  }
  return EC_OK;
}

static ec_status describe_arenas(ec_method_info *info, ec_fb_table plan, ec_error *err) {
  ec_fb_vec sizes = ec_fb_vector(plan, EC_PTE_ExecutionPlan_non_const_buffer_sizes);
  uint32_t count = sizes.count ? sizes.count - 1 : 0; /* entry 0 is reserved */
  EC_TRY(ec_arena_array(&info->arena, count, sizeof *info->arenas, "arenas", &info->arenas, err));
  info->arena_count = count;
  for (uint32_t i = 0; i < count; i++) info->arenas[i] = ec_fb_vec_i64(sizes, i + 1);
  return EC_OK;
}

static ec_status describe_operators(ec_method_info *info, ec_fb_table plan, ec_error *err) {
  char name[256];
  ec_fb_vec ops = ec_fb_vector(plan, EC_PTE_ExecutionPlan_operators);
  EC_TRY(ec_arena_array(&info->arena, ops.count, sizeof *info->operators, "operators",
                        &info->operators, err));
  info->operator_count = ops.count;
  for (uint32_t i = 0; i < ops.count; i++) {
    if (!ec_plan_op_name(plan, (int32_t)i, name, sizeof name))
      return ec_fail(err, EC_INVALID_PROGRAM, "operator %u has no usable name", i);
    char *copy;
    EC_TRY(ec_arena_array(&info->arena, strlen(name) + 1, 1, "a name", &copy, err));
    memcpy(copy, name, strlen(name) + 1);
    info->operators[i].name = copy;
    info->operators[i].available = ec_op_exists(name);
  }
  return EC_OK;
}

static ec_status describe_delegates(const ec_program *p, ec_method_info *info, ec_fb_table plan,
                                    ec_error *err) {
  ec_fb_vec rows = ec_fb_vector(plan, EC_PTE_ExecutionPlan_delegates);
  EC_TRY(ec_arena_array(&info->arena, rows.count, sizeof *info->delegates, "delegates",
                        &info->delegates, err));
  info->delegate_count = rows.count;
  for (uint32_t i = 0; i < rows.count; i++) {
    ec_bytes payload = {NULL, 0};
    ec_fb_table row = ec_fb_vec_table(rows, i);
    ec_fb_table processed = ec_fb_child(row, EC_PTE_BackendDelegate_processed);
    const char *id = ec_fb_string(row, EC_PTE_BackendDelegate_id);
    if (!id || !processed)
      return ec_fail(err, EC_INVALID_PROGRAM, "delegate %u has no %s", i,
                     id ? "payload" : "backend id");
    EC_TRY(ec_pte_delegate_data(&p->pte, processed, &payload, err));
    info->delegates[i] = (ec_delegate_use){.id = id,
                                           .payload = payload.size,
                                           .registered = ec_backend_find(id) != NULL,
                                           .available = ec_backend_is_available(id)};
  }
  return EC_OK;
}

static void count_calls(ec_method_info *info, ec_fb_vec instrs) {
  info->instruction_count += instrs.count;
  for (uint32_t i = 0; i < instrs.count; i++) {
    ec_fb_table instr = ec_fb_vec_table(instrs, i);
    ec_fb_table body = ec_fb_child(instr, EC_PTE_Instruction_instr_args);
    uint8_t type = ec_fb_u8(instr, EC_PTE_Instruction_instr_args_type);
    if (type == EC_PTE_KERNEL_CALL) {
      int32_t at = ec_fb_i32(body, EC_PTE_KernelCall_op_index);
      if (at >= 0 && (size_t)at < info->operator_count) info->operators[at].calls++;
    } else if (type == EC_PTE_DELEGATE_CALL) {
      int32_t at = ec_fb_i32(body, EC_PTE_DelegateCall_delegate_index);
      if (at >= 0 && (size_t)at < info->delegate_count) info->delegates[at].calls++;
    }
  }
}

static ec_status describe(const ec_program *p, size_t index, ec_method_info *info, ec_error *err) {
  ec_fb_table plan = ec_fb_vec_table(p->plans, (uint32_t)index);
  info->name = p->names[index];
  EC_TRY(describe_list(info, plan, EC_PTE_ExecutionPlan_inputs, "input", &info->inputs,
                       &info->input_count, err));
  EC_TRY(describe_list(info, plan, EC_PTE_ExecutionPlan_outputs, "output", &info->outputs,
                       &info->output_count, err));
  EC_TRY(describe_values(info, plan, err));
  EC_TRY(describe_arenas(info, plan, err));
  EC_TRY(describe_operators(info, plan, err));
  EC_TRY(describe_delegates(p, info, plan, err));
  ec_fb_vec chains = ec_fb_vector(plan, EC_PTE_ExecutionPlan_chains);
  info->chain_count = chains.count;
  for (uint32_t c = 0; c < chains.count; c++)
    count_calls(info, ec_fb_vector(ec_fb_vec_table(chains, c), EC_PTE_Chain_instructions));
  ec_fb_table container = ec_fb_child(plan, EC_PTE_ExecutionPlan_container_meta_type);
  info->encoded_inputs = ec_fb_string(container, EC_PTE_ContainerMetadata_encoded_inp_str);
  info->encoded_outputs = ec_fb_string(container, EC_PTE_ContainerMetadata_encoded_out_str);
  return EC_OK;
}

ec_status ec_program_describe(const ec_program *program, size_t index, ec_method_info *out,
                              ec_error *err) {
  *out = (ec_method_info){0};
  ec_status status = describe(program, index, out, err);
  if (status == EC_OK) return EC_OK;
  ec_method_info_deinit(out);
  return ec_fail_in(err, status, "method '%s'", program->names[index]);
}

void ec_method_info_deinit(ec_method_info *info) { ec_arena_deinit(&info->arena); }

static ec_status fill_program(const ec_program *p, ec_program_info *out, ec_error *err) {
  ec_fb_vec segments = ec_fb_vector(p->pte.root, EC_PTE_Program_segments);
  EC_TRY(ec_arena_array(&out->arena, segments.count, sizeof *out->segments, "segments",
                        &out->segments, err));
  EC_TRY(ec_arena_array(&out->arena, p->named.count, sizeof *out->named, "named data", &out->named,
                        err));
  out->segment_count = segments.count;
  out->named_count = p->named.count;
  for (uint32_t i = 0; i < segments.count; i++) {
    ec_fb_table row = ec_fb_vec_table(segments, i);
    out->segments[i] = (ec_segment_info){ec_fb_u64(row, EC_PTE_DataSegment_offset),
                                         ec_fb_u64(row, EC_PTE_DataSegment_size)};
  }
  for (size_t i = 0; i < p->named.count; i++) {
    const ec_named_data *row = &p->named.items[i];
    out->named[i] = (ec_named_info){row->key, row->bytes.size, row->source};
  }
  return EC_OK;
}

ec_status ec_program_info_init(const ec_program *program, ec_program_info *out, ec_error *err) {
  *out = (ec_program_info){
      .file_size = program->pte.size,
      .program_size = program->pte.program_size,
      .segment_base = program->pte.segment_base,
      .header_length = program->pte.header_length,
      .version = ec_fb_u32(program->pte.root, EC_PTE_Program_version),
  };
  ec_status status = fill_program(program, out, err);
  if (status != EC_OK) ec_program_info_deinit(out);
  return status;
}

void ec_program_info_deinit(ec_program_info *info) { ec_arena_deinit(&info->arena); }
