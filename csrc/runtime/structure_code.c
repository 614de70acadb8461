/* Instructions of a method as rows: arguments by name, what each of them is for, stack traces. */
#include "runtime/structure_code.h"

#include <string.h>

#include "runtime/impl.h"

/* A chain while it is read. */
typedef struct reader {
  ec_structure *s;
  ec_fb_table plan;
  const char **op_names; /* by index in the file */
  bool *touched;         /* by value: it has a value before the present instruction */
} reader;

/* ---- operators --------------------------------------------------------------------------- */

static ec_status read_operators(reader *r, ec_error *err) {
  char name[EC_MAX_OP_NAME];
  ec_structure *s = r->s;
  ec_fb_vec ops = ec_fb_vector(r->plan, EC_PTE_ExecutionPlan_operators);
  EC_TRY(ec_arena_array(&s->arena, ops.count, sizeof *s->ops, "operators", &s->ops, err));
  EC_TRY(ec_arena_array(&s->arena, ops.count, sizeof *r->op_names, "names", &r->op_names, err));
  for (uint32_t i = 0; i < ops.count; i++) {
    if (!ec_plan_op_name(r->plan, (int32_t)i, name, sizeof name))
      return ec_fail(err, EC_INVALID_PROGRAM, "operator %u has no name, or one over %d bytes", i,
                     EC_MAX_OP_NAME - 1);
    char *copy;
    EC_TRY(ec_arena_array(&s->arena, strlen(name) + 1, 1, "a name", &copy, err));
    memcpy(copy, name, strlen(name) + 1);
    r->op_names[i] = copy;
    s->ops[i] = ec_op_acquire(name);
    s->op_count = i + 1;
  }
  return EC_OK;
}

/* ---- arguments --------------------------------------------------------------------------- */

static ec_status check_index(const reader *r, int32_t at, size_t arg, ec_error *err) {
  if (at >= 0 && (size_t)at < r->s->value_count) return EC_OK;
  return ec_fail(err, EC_INVALID_PROGRAM, "argument %zu is value %d of %zu", arg, at,
                 r->s->value_count);
}

static ec_status read_args(const reader *r, ec_fb_vec indices, ec_instr_row *row, ec_error *err) {
  EC_TRY(ec_arena_array(&r->s->arena, indices.count, sizeof *row->args, "arguments", &row->args,
                        err));
  row->arg_count = indices.count;
  for (uint32_t i = 0; i < indices.count; i++) {
    int32_t at = ec_fb_vec_i32(indices, i);
    EC_TRY(check_index(r, at, i, err));
    row->args[i].value = (uint32_t)at;
  }
  return EC_OK;
}

/* The arguments of an instruction that has a fixed number of them. */
static ec_status set_args(const reader *r, const int32_t *at, size_t count, ec_instr_row *row,
                          ec_error *err) {
  EC_TRY(ec_arena_array(&r->s->arena, count, sizeof *row->args, "arguments", &row->args, err));
  row->arg_count = count;
  for (size_t i = 0; i < count; i++) {
    EC_TRY(check_index(r, at[i], i, err));
    const ec_kind kind = r->s->values[at[i]].info.kind;
    if (kind >= EC_KIND_BOOL_LIST)
      return ec_fail(err, EC_INVALID_PROGRAM, "argument %zu is a %s", i, ec_kind_name(kind));
    row->args[i].value = (uint32_t)at[i];
  }
  return EC_OK;
}

static ec_role role_of(const ec_arg_spec *spec) {
  return spec->is_out ? EC_ROLE_OUT : spec->written ? EC_ROLE_INOUT : EC_ROLE_IN;
}

static void name_args(const ec_op *op, ec_instr_row *row) {
  for (size_t i = 0; i < row->arg_count; i++) {
    ec_arg_row *arg = &row->args[i];
    if (i < op->nargs) {
      arg->name = op->args[i].name;
      arg->role = (uint8_t)role_of(&op->args[i]);
    } else {
      arg->role = i == op->nargs && op->returns_scalar ? EC_ROLE_OUT : EC_ROLE_RETURN;
    }
  }
}

/* Whether an argument is what the last one repeats: the same value, a list of the same tensors, or
 * one of the tensors that it lists. */
static bool is_result(const ec_structure *s, uint32_t arg, uint32_t last) {
  const ec_value_row *a = &s->values[arg], *b = &s->values[last];
  if (arg == last) return true;
  if (b->info.kind != EC_KIND_TENSOR_LIST || !b->item_count) return false;
  if (a->info.kind == EC_KIND_TENSOR_LIST)
    return a->item_count == b->item_count &&
           memcmp(a->items, b->items, b->item_count * sizeof *b->items) == 0;
  for (size_t i = 0; i < b->item_count; i++)
    if (b->items[i] == (int64_t)arg) return true;
  return false;
}

/* Of an operator that nobody here knows: exporters write results once more behind the arguments, a
 * list where there are several. */
static void guess_outputs(const ec_structure *s, ec_instr_row *row) {
  if (!row->arg_count) return;
  ec_arg_row *last = &row->args[row->arg_count - 1];
  if (s->values[last->value].item_count > EC_MAX_OP_ARGS) return; /* so that lies are cheap */
  for (size_t i = 0; i + 1 < row->arg_count; i++) {
    if (!is_result(s, row->args[i].value, last->value)) continue;
    row->args[i].role = EC_ROLE_OUT;
    last->role = EC_ROLE_RETURN;
  }
}

/* ---- outputs of delegates: as load_code.c finds them ------------------------------------- */

/* A list that has been touched has touched its items: each list is walked once. */
static void touch(const reader *r, uint32_t value) {
  const ec_value_row *row = &r->s->values[value];
  if (r->touched[value]) return;
  r->touched[value] = true;
  if (row->info.kind != EC_KIND_TENSOR_LIST && row->info.kind != EC_KIND_OPTIONAL_TENSOR_LIST)
    return;
  for (size_t i = 0; i < row->item_count; i++)
    if (row->items[i] >= 0) r->touched[row->items[i]] = true;
}

static ec_status touch_first(reader *r, ec_error *err) {
  ec_structure *s = r->s;
  EC_TRY(ec_arena_array(&s->arena, s->value_count, sizeof *r->touched, "values", &r->touched, err));
  for (size_t i = 0; i < s->input_count; i++) touch(r, s->inputs[i]);
  for (uint32_t i = 0; i < s->value_count; i++)
    if (s->values[i].place > EC_PLACE_PLANNED) r->touched[i] = true;
  return EC_OK;
}

static void find_outputs(const reader *r, ec_instr_row *row) {
  for (size_t n = row->arg_count; row->delegate >= 0 && n > 0; n--) {
    ec_arg_row *arg = &row->args[n - 1];
    if (r->s->values[arg->value].info.kind != EC_KIND_TENSOR || r->touched[arg->value]) break;
    arg->role = EC_ROLE_OUT;
  }
  for (size_t i = 0; i < row->arg_count; i++) touch(r, row->args[i].value);
}

/* ---- the five instructions --------------------------------------------------------------- */

static ec_status read_kernel(const reader *r, ec_fb_table body, ec_instr_row *row, ec_error *err) {
  int32_t index = ec_fb_i32(body, EC_PTE_KernelCall_op_index);
  if (index < 0 || (size_t)index >= r->s->op_count)
    return ec_fail(err, EC_INVALID_PROGRAM, "operator %d of %zu", index, r->s->op_count);
  const ec_op *op = r->s->ops[index];
  row->name = r->op_names[index];
  row->available = op != NULL;
  ec_status status = read_args(r, ec_fb_vector(body, EC_PTE_KernelCall_args), row, err);
  if (status != EC_OK) return ec_fail_in(err, status, "%s", row->name);
  if (op)
    name_args(op, row);
  else
    guess_outputs(r->s, row);
  return EC_OK;
}

static ec_status read_delegate_call(const reader *r, ec_fb_table body, ec_instr_row *row,
                                    ec_error *err) {
  row->delegate = ec_fb_i32(body, EC_PTE_DelegateCall_delegate_index);
  if (row->delegate < 0 || (size_t)row->delegate >= r->s->delegate_count)
    return ec_fail(err, EC_INVALID_PROGRAM, "delegate %d of %zu", row->delegate,
                   r->s->delegate_count);
  row->name = r->s->delegates[row->delegate].id;
  return read_args(r, ec_fb_vector(body, EC_PTE_DelegateCall_args), row, err);
}

static ec_status read_move(const reader *r, ec_fb_table body, ec_instr_row *row, ec_error *err) {
  const int32_t at[] = {ec_fb_i32(body, EC_PTE_MoveCall_move_from),
                        ec_fb_i32(body, EC_PTE_MoveCall_move_to)};
  EC_TRY(set_args(r, at, 2, row, err));
  row->args[1].role = EC_ROLE_OUT;
  return EC_OK;
}

static ec_status read_jump(const reader *r, ec_fb_table body, ec_instr_row *row, ec_error *err) {
  const int32_t at = ec_fb_i32(body, EC_PTE_JumpFalseCall_cond_value_index);
  row->destination = ec_fb_i32(body, EC_PTE_JumpFalseCall_destination_instruction);
  if (row->destination < 0)
    return ec_fail(err, EC_INVALID_PROGRAM, "a jump to instruction %d", row->destination);
  return set_args(r, &at, 1, row, err);
}

static ec_status read_free(const reader *r, ec_fb_table body, ec_instr_row *row, ec_error *err) {
  const int32_t at = ec_fb_i32(body, EC_PTE_FreeCall_value_index);
  return set_args(r, &at, 1, row, err);
}

static ec_status read_instr(const reader *r, ec_fb_table table, ec_instr_row *row, ec_error *err) {
  static ec_status (*const readers[])(const reader *, ec_fb_table, ec_instr_row *, ec_error *) = {
      [EC_PTE_KERNEL_CALL] = read_kernel, [EC_PTE_DELEGATE_CALL] = read_delegate_call,
      [EC_PTE_MOVE_CALL] = read_move,     [EC_PTE_JUMP_FALSE_CALL] = read_jump,
      [EC_PTE_FREE_CALL] = read_free,
  };
  ec_fb_table body = ec_fb_child(table, EC_PTE_Instruction_instr_args);
  row->type = ec_fb_u8(table, EC_PTE_Instruction_instr_args_type);
  row->delegate = row->destination = -1;
  if (row->type < EC_PTE_KERNEL_CALL || row->type > EC_PTE_FREE_CALL || !body)
    return ec_fail(err, EC_INVALID_PROGRAM, "unknown kind %u, or no arguments", row->type);
  return readers[row->type](r, body, row, err);
}

/* ---- stack traces ------------------------------------------------------------------------ */

static ec_status read_frames(const reader *r, ec_fb_table list, ec_instr_row *row, ec_error *err) {
  ec_fb_vec items = ec_fb_vector(list, EC_PTE_FrameList_items);
  EC_TRY(ec_arena_array(&r->s->arena, items.count, sizeof *row->frames, "a stack trace",
                        &row->frames, err));
  row->frame_count = items.count;
  for (uint32_t i = 0; i < items.count; i++) {
    ec_fb_table frame = ec_fb_vec_table(items, i);
    row->frames[i] = (ec_frame_row){.file = ec_fb_string(frame, EC_PTE_Frame_filename),
                                    .function = ec_fb_string(frame, EC_PTE_Frame_name),
                                    .context = ec_fb_string(frame, EC_PTE_Frame_context),
                                    .line = ec_fb_i32(frame, EC_PTE_Frame_lineno)};
  }
  return EC_OK;
}

/* ---- chains ------------------------------------------------------------------------------ */

static ec_status read_chain(const reader *r, ec_fb_table table, ec_chain_row *chain,
                            ec_error *err) {
  ec_fb_vec instrs = ec_fb_vector(table, EC_PTE_Chain_instructions);
  ec_fb_vec traces = ec_fb_vector(table, EC_PTE_Chain_stacktrace);
  EC_TRY(ec_arena_array(&r->s->arena, instrs.count, sizeof *chain->instrs, "instructions",
                        &chain->instrs, err));
  chain->count = instrs.count;
  for (uint32_t i = 0; i < instrs.count; i++) {
    ec_instr_row *row = &chain->instrs[i];
    ec_status status = read_instr(r, ec_fb_vec_table(instrs, i), row, err);
    if (status == EC_OK && i < traces.count)
      status = read_frames(r, ec_fb_vec_table(traces, i), row, err);
    if (status != EC_OK) return ec_fail_in(err, status, "instruction %u", i);
    find_outputs(r, row);
  }
  return EC_OK;
}

ec_status ec_structure_chains(ec_structure *s, ec_fb_table plan, ec_error *err) {
  reader r = {.s = s, .plan = plan};
  ec_fb_vec chains = ec_fb_vector(plan, EC_PTE_ExecutionPlan_chains);
  EC_TRY(read_operators(&r, err));
  EC_TRY(touch_first(&r, err));
  EC_TRY(ec_arena_array(&s->arena, chains.count, sizeof *s->chains, "chains", &s->chains, err));
  s->chain_count = chains.count;
  for (uint32_t i = 0; i < chains.count; i++) {
    ec_status status = read_chain(&r, ec_fb_vec_table(chains, i), &s->chains[i], err);
    if (status != EC_OK) return chains.count == 1 ? status : ec_fail_in(err, status, "chain %u", i);
  }
  return EC_OK;
}
