/* Descriptions of programs and methods from the file alone. No method is loaded and no memory
 * planned; backends are only asked for their availability. */
#include "runtime/describe.h"

#include "backend/registry.h"
#include "kernels/op.h"
#include "runtime/program_internal.h"

static ec_status describe_io(ec_method_info *info, const ec_rows *rows, ec_fb_vec indices,
                             const char *what, ec_value_info **out, size_t *count,
                             ec_error *err) {
  uint32_t index;
  EC_TRY(ec_arena_array(&info->arena, indices.count, sizeof **out, what, out, err));
  *count = indices.count;
  for (uint32_t i = 0; i < indices.count; i++) {
    EC_TRY(ec_decode_io(rows, indices, i, what, &index, err));
    ec_status status =
        ec_decode_value_info(ec_fb_vec_table(rows->values, index), &(*out)[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "%s %u", what, i);
  }
  return EC_OK;
}

/* Collects named tensors and the bytes of constants. */
static ec_status describe_values(ec_method_info *info, const ec_rows *rows, ec_error *err) {
  ec_fb_vec values = rows->values;
  EC_TRY(ec_arena_array(&info->arena, values.count, sizeof *info->attributes, "attributes",
                        &info->attributes, err));
  info->value_count = values.count;
  for (uint32_t i = 0; i < values.count; i++) {
    ec_value_info value;
    ec_fb_table row = ec_fb_vec_table(values, i);
    if (!ec_value_is_tensor(row)) continue;
    ec_status status = ec_decode_value_info(row, &value, err);
    if (status != EC_OK) return ec_fail_in(err, status, "value %u", i);
    if (value.tensor.device) info->device = value.tensor.device;
    if (value.tensor.name) info->attributes[info->attribute_count++] = value.tensor;
    if (value.tensor.buffer && !value.tensor.is_memory_planned)
      info->constant_bytes += value.tensor.nbytes;
  }
  return EC_OK;
}

static ec_status describe_arenas(ec_method_info *info, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->arena_count;
  EC_TRY(ec_arena_array(&info->arena, count, sizeof *info->arenas, "arenas", &info->arenas, err));
  EC_TRY(ec_arena_array(&info->arena, count, sizeof *info->arena_devices, "arenas",
                        &info->arena_devices, err));
  info->arena_count = count;
  for (uint32_t i = 0; i < count; i++) info->arenas[i] = ec_fb_vec_i64(rows->memory, i + 1);
  ec_fb_vec devices = ec_fb_vector(rows->table, EC_PTE_ExecutionPlan_non_const_buffer_device);
  for (uint32_t i = 0; i < devices.count; i++) {
    const ec_fb_table row = ec_fb_vec_table(devices, i);
    const uint8_t device = ec_fb_u8(row, EC_PTE_NonConstBufferDevice_device_type);
    const uint32_t arena = ec_fb_u32(row, EC_PTE_NonConstBufferDevice_buffer_idx);
    if (device) info->device = device;
    if (arena >= 1 && arena <= count) info->arena_devices[arena - 1] = device;
  }
  return EC_OK;
}

static ec_status describe_operators(ec_method_info *info, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->operators.count;
  EC_TRY(ec_arena_array(&info->arena, count, sizeof *info->operators, "operators",
                        &info->operators, err));
  info->operator_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ec_op_use *use = &info->operators[i];
    EC_TRY(ec_copy_op_name(rows, i, &info->arena, &use->name, err));
    use->available = ec_op_exists(use->name);
  }
  return EC_OK;
}

static ec_status describe_delegates(ec_method_info *info, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->delegates.count;
  EC_TRY(ec_arena_array(&info->arena, count, sizeof *info->delegates, "delegates",
                        &info->delegates, err));
  info->delegate_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ec_delegate_row row;
    ec_status status = ec_decode_payload(rows, i, &row, err);
    if (status != EC_OK && (!row.id || !row.processed))
      return ec_fail(err, status, "delegate %u has no %s", i, row.id ? "payload" : "backend id");
    EC_TRY(status);
    const ec_backend *backend = ec_backend_find(row.id);
    info->delegates[i] = (ec_delegate_use){.id = row.id,
                                           .engine = backend ? backend->version : NULL,
                                           .payload = row.payload.size,
                                           .registered = backend != NULL,
                                           .available = ec_backend_is_available(row.id),
                                           .lacks = ec_backend_lacks(row.id)};
  }
  return EC_OK;
}

static void count_calls(ec_method_info *info, const ec_rows *rows, ec_fb_vec instrs) {
  info->instruction_count += instrs.count;
  for (uint32_t i = 0; i < instrs.count; i++) {
    ec_instr_row row;
    if (ec_decode_instr(rows, ec_fb_vec_table(instrs, i), &row, NULL) != EC_OK) continue;
    if (row.op >= 0) info->operators[row.op].calls++;
    if (row.delegate >= 0) info->delegates[row.delegate].calls++;
  }
}

static ec_status describe_method(const ec_program *p, size_t index, ec_method_info *info,
                                 ec_error *err) {
  ec_rows rows;
  ec_rows_init(&rows, p, index);
  info->name = p->names[index];
  EC_TRY(describe_io(info, &rows, rows.inputs, "input", &info->inputs, &info->input_count, err));
  EC_TRY(describe_io(info, &rows, rows.outputs, "output", &info->outputs, &info->output_count,
                     err));
  EC_TRY(describe_values(info, &rows, err));
  EC_TRY(describe_arenas(info, &rows, err));
  EC_TRY(describe_operators(info, &rows, err));
  EC_TRY(describe_delegates(info, &rows, err));
  info->chain_count = rows.chains.count;
  for (uint32_t c = 0; c < rows.chains.count; c++)
    count_calls(info, &rows, ec_decode_chain(&rows, c));
  ec_fb_table container = ec_fb_child(rows.table, EC_PTE_ExecutionPlan_container_meta_type);
  info->encoded_inputs = ec_fb_string(container, EC_PTE_ContainerMetadata_encoded_inp_str);
  info->encoded_outputs = ec_fb_string(container, EC_PTE_ContainerMetadata_encoded_out_str);
  return EC_OK;
}

ec_status ec_program_describe(const ec_program *program, size_t index, ec_method_info *out,
                              ec_error *err) {
  *out = (ec_method_info){0};
  ec_status status = describe_method(program, index, out, err);
  if (status == EC_OK) return EC_OK;
  ec_method_info_deinit(out);
  return ec_fail_in(err, status, "method '%s'", program->names[index]);
}

void ec_method_info_deinit(ec_method_info *info) { ec_arena_deinit(&info->arena); }

static ec_status describe_program(const ec_program *p, ec_program_info *out, ec_error *err) {
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
      .file_size = program->file.size,
      .program_size = program->pte.program_size,
      .segment_base = program->pte.segment_base,
      .header_length = program->pte.header_length,
      .version = ec_fb_u32(program->pte.root, EC_PTE_Program_version),
  };
  ec_status status = describe_program(program, out, err);
  if (status != EC_OK) ec_program_info_deinit(out);
  return status;
}

void ec_program_info_deinit(ec_program_info *info) { ec_arena_deinit(&info->arena); }
