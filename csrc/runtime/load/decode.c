/* Rows of the file: planned memory, inputs and outputs, operators, instructions and delegates.
 * For values see decode_values.c. */
#include "runtime/load/decode.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/program_internal.h"

void ec_rows_init(ec_rows *rows, const ec_program *program, size_t method) {
  ec_fb_table table = ec_fb_vec_table(program->plans, (uint32_t)method);
  *rows = (ec_rows){
      .program = program,
      .table = table,
      .values = ec_fb_vector(table, EC_PTE_ExecutionPlan_values),
      .operators = ec_fb_vector(table, EC_PTE_ExecutionPlan_operators),
      .delegates = ec_fb_vector(table, EC_PTE_ExecutionPlan_delegates),
      .chains = ec_fb_vector(table, EC_PTE_ExecutionPlan_chains),
      .inputs = ec_fb_vector(table, EC_PTE_ExecutionPlan_inputs),
      .outputs = ec_fb_vector(table, EC_PTE_ExecutionPlan_outputs),
      .memory = ec_fb_vector(table, EC_PTE_ExecutionPlan_non_const_buffer_sizes),
  };
  rows->arena_count = rows->memory.count ? rows->memory.count - 1 : 0;
}

ec_status ec_decode_memory(const ec_rows *rows, uint32_t id, size_t *size, ec_error *err) {
  const int64_t bytes = ec_fb_vec_i64(rows->memory, id);
  if (bytes < 0)
    return ec_fail(err, EC_INVALID_PROGRAM, "planned memory %u has size %" PRId64, id, bytes);
  *size = (size_t)bytes;
  return EC_OK;
}

const char *ec_device_name(uint8_t type) {
  static const char *const names[] = {"CPU", "CUDA"};
  return type < sizeof names / sizeof *names ? names[type] : "a device of an unknown type";
}

ec_status ec_fail_device(ec_error *err, uint8_t type, const char *fmt, ...) {
  char what[64];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  return ec_fail(err, EC_NOT_SUPPORTED, "%s is on device %u (%s), only the CPU (0) is supported: "
                 "export without the compile spec 'target_device'", what, type,
                 ec_device_name(type));
}

/* ---- indices of values ------------------------------------------------------------------- */

static bool is_value_index(const ec_rows *rows, int32_t index) {
  return index >= 0 && (uint32_t)index < rows->values.count;
}

ec_status ec_decode_io(const ec_rows *rows, ec_fb_vec indices, uint32_t index, const char *what,
                       uint32_t *value, ec_error *err) {
  const int32_t actual = ec_fb_vec_i32(indices, index);
  if (!is_value_index(rows, actual))
    return ec_fail(err, EC_INVALID_PROGRAM, "%s %u is value %d of %u", what, index, actual,
                   rows->values.count);
  *value = (uint32_t)actual;
  return EC_OK;
}

static ec_status decode_args(const ec_rows *rows, ec_fb_vec args, ec_instr_row *row,
                             ec_error *err) {
  row->args = args;
  row->arg_count = args.count;
  for (uint32_t i = 0; i < args.count; i++) {
    const int32_t index = ec_fb_vec_i32(args, i);
    if (!is_value_index(rows, index))
      return ec_fail(err, EC_INVALID_PROGRAM, "argument %u is value %d of %u", i, index,
                     rows->values.count);
  }
  return EC_OK;
}

static ec_status decode_slot(const ec_rows *rows, int32_t index, ec_instr_row *row,
                             ec_error *err) {
  if (!is_value_index(rows, index))
    return ec_fail(err, EC_INVALID_PROGRAM, "value %d of %u", index, rows->values.count);
  row->slots[row->arg_count++] = index;
  return EC_OK;
}

/* ---- operators --------------------------------------------------------------------------- */

const char *ec_decode_op_name(const ec_rows *rows, int32_t index, char name[EC_OP_NAME_BYTES]) {
  if (index < 0 || (uint32_t)index >= rows->operators.count) return NULL;
  ec_fb_table op = ec_fb_vec_table(rows->operators, (uint32_t)index);
  const char *base = ec_fb_string(op, EC_PTE_Operator_name);
  const char *overload = ec_fb_string(op, EC_PTE_Operator_overload);
  if (!base) return NULL;
  const bool dot = overload && overload[0];
  const int n =
      snprintf(name, EC_OP_NAME_BYTES, "%s%s%s", base, dot ? "." : "", dot ? overload : "");
  return n >= 0 && n < EC_OP_NAME_BYTES ? name : NULL;
}

ec_status ec_copy_op_name(const ec_rows *rows, uint32_t index, ec_arena *arena, const char **out,
                          ec_error *err) {
  char name[EC_OP_NAME_BYTES], *copy;
  if (!ec_decode_op_name(rows, (int32_t)index, name))
    return ec_fail(err, EC_INVALID_PROGRAM, "operator %u has no name, or one over %d bytes", index,
                   EC_OP_NAME_BYTES - 1);
  const size_t size = strlen(name) + 1;
  EC_TRY(ec_arena_array(arena, size, 1, "a name", &copy, err));
  *out = memcpy(copy, name, size);
  return EC_OK;
}

/* ---- instructions ------------------------------------------------------------------------ */

static ec_status decode_kernel_call(const ec_rows *rows, ec_fb_table body, ec_instr_row *row,
                                    ec_error *err) {
  char name[EC_OP_NAME_BYTES];
  row->op = ec_fb_i32(body, EC_PTE_KernelCall_op_index);
  if (row->op < 0 || (uint32_t)row->op >= rows->operators.count)
    return ec_fail(err, EC_INVALID_PROGRAM, "operator %d of %u", row->op, rows->operators.count);
  ec_status status = decode_args(rows, ec_fb_vector(body, EC_PTE_KernelCall_args), row, err);
  if (status == EC_OK || !ec_decode_op_name(rows, row->op, name)) return status;
  return ec_fail_in(err, status, "%s", name);
}

static ec_status decode_delegate_call(const ec_rows *rows, ec_fb_table body, ec_instr_row *row,
                                      ec_error *err) {
  row->delegate = ec_fb_i32(body, EC_PTE_DelegateCall_delegate_index);
  if (row->delegate < 0 || (uint32_t)row->delegate >= rows->delegates.count)
    return ec_fail(err, EC_INVALID_PROGRAM, "delegate %d of %u", row->delegate,
                   rows->delegates.count);
  return decode_args(rows, ec_fb_vector(body, EC_PTE_DelegateCall_args), row, err);
}

static ec_status decode_move(const ec_rows *rows, ec_fb_table body, ec_instr_row *row,
                             ec_error *err) {
  EC_TRY(decode_slot(rows, ec_fb_i32(body, EC_PTE_MoveCall_move_from), row, err));
  return decode_slot(rows, ec_fb_i32(body, EC_PTE_MoveCall_move_to), row, err);
}

static ec_status decode_jump(const ec_rows *rows, ec_fb_table body, ec_instr_row *row,
                             ec_error *err) {
  row->destination = ec_fb_i32(body, EC_PTE_JumpFalseCall_destination_instruction);
  EC_TRY(decode_slot(rows, ec_fb_i32(body, EC_PTE_JumpFalseCall_cond_value_index), row, err));
  if (row->destination < 0)
    return ec_fail(err, EC_INVALID_PROGRAM, "a jump to instruction %d", row->destination);
  return EC_OK;
}

static ec_status decode_free(const ec_rows *rows, ec_fb_table body, ec_instr_row *row,
                             ec_error *err) {
  return decode_slot(rows, ec_fb_i32(body, EC_PTE_FreeCall_value_index), row, err);
}

ec_status ec_decode_instr(const ec_rows *rows, ec_fb_table instr, ec_instr_row *row,
                          ec_error *err) {
  static ec_status (*const decoders[EC_INSTR_KINDS])(const ec_rows *, ec_fb_table, ec_instr_row *,
                                                     ec_error *) = {
      [EC_INSTR_KernelCall] = decode_kernel_call, [EC_INSTR_DelegateCall] = decode_delegate_call,
      [EC_INSTR_MoveCall] = decode_move,          [EC_INSTR_JumpFalseCall] = decode_jump,
      [EC_INSTR_FreeCall] = decode_free,
  };
  const uint8_t type = ec_fb_u8(instr, EC_PTE_Instruction_instr_args_type);
  ec_fb_table body = ec_fb_child(instr, EC_PTE_Instruction_instr_args);
  if (type < EC_PTE_KERNEL_CALL || type > EC_PTE_FREE_CALL || !body)
    return ec_fail(err, EC_INVALID_PROGRAM, "unknown kind %u, or no arguments", type);
  *row = (ec_instr_row){.kind = (uint8_t)(type - EC_PTE_KERNEL_CALL),
                        .op = -1, .delegate = -1, .destination = -1};
  return decoders[row->kind](rows, body, row, err);
}

/* ---- delegates --------------------------------------------------------------------------- */

ec_status ec_decode_payload(const ec_rows *rows, uint32_t index, ec_delegate_row *row,
                            ec_error *err) {
  const ec_pte *pte = &rows->program->pte;
  ec_fb_table table = ec_fb_vec_table(rows->delegates, index);
  ec_fb_table processed = ec_fb_child(table, EC_PTE_BackendDelegate_processed);
  const int8_t location = ec_fb_i8(processed, EC_PTE_BackendDelegateDataReference_location);
  *row = (ec_delegate_row){
      .id = ec_fb_string(table, EC_PTE_BackendDelegate_id),
      .processed = processed,
      .index = ec_fb_u32(processed, EC_PTE_BackendDelegateDataReference_index),
      .in_segment = location == EC_PTE_DATA_SEGMENT,
  };
  if (!row->id || !processed)
    return ec_fail(err, EC_INVALID_PROGRAM, "delegate without %s",
                   row->id ? "payload" : "backend id");
  if (strnlen(row->id, EC_OP_NAME_BYTES) == EC_OP_NAME_BYTES) /* each call repeats it in listings */
    return ec_fail(err, EC_INVALID_PROGRAM, "delegate with a backend id over %d bytes",
                   EC_OP_NAME_BYTES - 1);
  EC_TRY(ec_pte_delegate_data(pte, processed, &row->payload, err));
  row->file_offset = row->payload.data ? row->payload.data - pte->data : -1;
  return EC_OK;
}

ec_status ec_decode_delegate(const ec_rows *rows, uint32_t index, ec_arena *arena,
                             ec_delegate_row *row, ec_error *err) {
  ec_backend_spec *out;
  EC_TRY(ec_decode_payload(rows, index, row, err));
  ec_fb_vec specs = ec_fb_vector(ec_fb_vec_table(rows->delegates, index),
                                 EC_PTE_BackendDelegate_compile_specs);
  EC_TRY(ec_arena_array(arena, specs.count, sizeof *out, "compile specs", &out, err));
  for (uint32_t i = 0; i < specs.count; i++) {
    ec_fb_table spec = ec_fb_vec_table(specs, i);
    ec_fb_vec value = ec_fb_vector(spec, EC_PTE_CompileSpec_value);
    out[i] = (ec_backend_spec){ec_fb_string(spec, EC_PTE_CompileSpec_key), value.items,
                               value.count};
    if (!out[i].key || !value.items)
      return ec_fail(err, EC_INVALID_PROGRAM, "compile spec %u has no %s", i,
                     out[i].key ? "value" : "key");
  }
  row->specs = out;
  row->spec_count = specs.count;
  return EC_OK;
}
