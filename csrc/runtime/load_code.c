/* Instructions: operators resolved, arguments turned into pointers, every call checked against the
 * schema of its operator, so that kernels read arguments without a check. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/impl.h"

/* ---- operators --------------------------------------------------------------------------- */

const char *ec_plan_op_name(ec_fb_table plan, int32_t index, char *name, size_t size) {
  ec_fb_vec ops = ec_fb_vector(plan, EC_PTE_ExecutionPlan_operators);
  if (index < 0 || (uint32_t)index >= ops.count) return NULL;
  ec_fb_table op = ec_fb_vec_table(ops, (uint32_t)index);
  const char *base = ec_fb_string(op, EC_PTE_Operator_name);
  const char *overload = ec_fb_string(op, EC_PTE_Operator_overload);
  if (!base) return NULL;
  bool dot = overload && overload[0];
  int n = snprintf(name, size, "%s%s%s", base, dot ? "." : "", dot ? overload : "");
  return n >= 0 && (size_t)n < size ? name : NULL;
}

ec_status ec_load_operators(ec_method *m, ec_fb_table plan, ec_error *err) {
  char name[EC_MAX_OP_NAME];
  ec_fb_vec ops = ec_fb_vector(plan, EC_PTE_ExecutionPlan_operators);
  EC_TRY(ec_arena_array(&m->arena, ops.count, sizeof *m->ops, "operators", &m->ops, err));
  m->op_count = ops.count;
  for (uint32_t i = 0; i < ops.count; i++)
    if (ec_plan_op_name(plan, (int32_t)i, name, sizeof name)) m->ops[i] = ec_op_acquire(name);
  return EC_OK;
}

/* One sentence with every operator of the method that has no kernel. */
static ec_status check_operators(const ec_method *m, ec_fb_table plan, ec_error *err) {
  char name[EC_MAX_OP_NAME];
  ec_fb_vec ops = ec_fb_vector(plan, EC_PTE_ExecutionPlan_operators);
  size_t missing = 0;
  for (uint32_t i = 0; i < ops.count; i++) {
    if (!ec_plan_op_name(plan, (int32_t)i, name, sizeof name))
      return ec_fail(err, EC_INVALID_PROGRAM, "operator %u has no name, or one over %d bytes", i,
                     EC_MAX_OP_NAME - 1);
    if (m->ops[i]) continue;
    if (missing++ == 0) ec_fail(err, EC_OPERATOR_MISSING, "no kernel for %s", name);
    else ec_error_append(err, ", %s", name);
  }
  return missing ? EC_OPERATOR_MISSING : EC_OK;
}

/* ---- arguments --------------------------------------------------------------------------- */

static ec_status load_args(ec_method *m, ec_fb_vec indices, ec_instr *instr, ec_error *err) {
  EC_TRY(ec_arena_array(&m->arena, indices.count, sizeof *instr->args, "arguments", &instr->args,
                        err));
  instr->count = indices.count;
  for (uint32_t i = 0; i < indices.count; i++) {
    int32_t at = ec_fb_vec_i32(indices, i);
    if (at < 0 || (size_t)at >= m->value_count)
      return ec_fail(err, EC_INVALID_PROGRAM, "argument %u is value %d of %zu", i, at,
                     m->value_count);
    instr->args[i] = &m->values[at];
  }
  return EC_OK;
}

/* Whether a value may be given for an argument. Numbers are one kind: see core/value.h. */
static bool fits(const ec_arg_spec *spec, const ec_value *v) {
  if (v->kind == EC_KIND_NONE) return spec->optional;
  switch ((ec_arg_type)spec->type) {
  case EC_ARG_TENSOR:
    if (!spec->is_list) return v->kind == EC_KIND_TENSOR;
    return v->kind == EC_KIND_TENSOR_LIST ||
           (spec->item_optional && v->kind == EC_KIND_OPTIONAL_TENSOR_LIST);
  case EC_ARG_INT: return spec->is_list ? v->kind == EC_KIND_INT_LIST : ec_is_number(v);
  case EC_ARG_DOUBLE: return spec->is_list ? v->kind == EC_KIND_DOUBLE_LIST : ec_is_number(v);
  case EC_ARG_BOOL: return spec->is_list ? v->kind == EC_KIND_BOOL_LIST : ec_is_number(v);
  case EC_ARG_STRING: return v->kind == EC_KIND_STRING;
  case EC_ARG_SCALAR: return ec_is_number(v);
  }
  return false;
}

static const char *const type_names[] = {
    [EC_ARG_TENSOR] = "Tensor", [EC_ARG_INT] = "Int",       [EC_ARG_DOUBLE] = "Double",
    [EC_ARG_BOOL] = "Bool",     [EC_ARG_STRING] = "String", [EC_ARG_SCALAR] = "number",
};

static ec_status check_args(const ec_instr *instr, ec_error *err) {
  const ec_op *op = instr->op;
  size_t need = op->nargs + (op->returns_scalar ? 1 : 0);
  if (instr->count < need)
    return ec_fail(err, EC_INVALID_PROGRAM, "%zu arguments, expected %zu (%s)", instr->count, need,
                   op->schema);
  for (size_t i = 0; i < op->nargs; i++)
    if (!fits(&op->args[i], instr->args[i]))
      return ec_fail(err, EC_INVALID_PROGRAM, "argument '%s' is a %s, expected %s%s%s",
                     op->args[i].name, ec_kind_name((ec_kind)instr->args[i]->kind),
                     type_names[op->args[i].type], op->args[i].is_list ? " list" : "",
                     op->args[i].optional ? " or None" : "");
  if (op->returns_scalar && !ec_is_number(instr->args[op->nargs]))
    return ec_fail(err, EC_INVALID_PROGRAM, "the result goes into a %s, expected a number",
                   ec_kind_name((ec_kind)instr->args[op->nargs]->kind));
  return EC_OK;
}

static bool has_tensors(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR || v->kind == EC_KIND_TENSOR_LIST ||
         v->kind == EC_KIND_OPTIONAL_TENSOR_LIST;
}

/* et_view points its out elsewhere, maybe at a constant again: it writes no memory. */
static bool writes_memory(const ec_op *op, size_t i) {
  return op->args[i].written && !op->makes_view;
}

typedef enum marking { MARK, LOOK, UNMARK } marking;

/* A tensor whose shape can change, or a list: whether any of it was marked before. */
static bool go_over(const ec_value *v, marking how) {
  bool again = false;
  if (v->kind == EC_KIND_TENSOR_LIST || v->kind == EC_KIND_OPTIONAL_TENSOR_LIST)
    for (uint32_t i = 0; i < v->count; i++) again |= go_over(v->as.items[i], how);
  if (v->kind != EC_KIND_TENSOR || v->as.tensor->dynamism == EC_STATIC) return again;
  ec_tensor *t = v->as.tensor;
  again = (t->flags & EC_TENSOR_MARKED) != 0;
  if (how == MARK) t->flags |= EC_TENSOR_MARKED;
  if (how == UNMARK) t->flags &= (uint8_t)~EC_TENSOR_MARKED;
  return again;
}

/* Kernels look at shapes before and after they resize their outputs: one whose shape can change
 * must not be another argument as well. As slots keep their tensors this holds in each call. */
static ec_status check_outs(const ec_instr *instr, ec_error *err) {
  const ec_op *op = instr->op;
  bool again = false;
  for (size_t i = 0; i < op->nargs; i++)
    if (writes_memory(op, i) && op->args[i].is_out) again |= go_over(instr->args[i], MARK);
  for (size_t i = 0; i < instr->read_count; i++) again |= go_over(instr->reads[i], LOOK);
  for (size_t i = 0; i < op->nargs; i++)
    if (writes_memory(op, i) && op->args[i].is_out) go_over(instr->args[i], UNMARK);
  return !again ? EC_OK
                : ec_fail(err, EC_INVALID_PROGRAM,
                          "an output whose shape can change is another argument, too");
}

/* An `out` is only written; a written `self` (copy_, index_put_) is read too. Lists are gone over
 * here and in the plan once for each call that has them: a file may give one to many calls. */
static ec_status gather(ec_method *m, ec_instr *instr, ec_error *err) {
  const ec_op *op = instr->op;
  size_t reads = 0, writes = 0;
  uint64_t items = 0;
  for (size_t i = 0; i < op->nargs; i++) {
    if (!has_tensors(instr->args[i])) continue;
    reads += !op->args[i].is_out;
    writes += writes_memory(op, i);
    items += instr->args[i]->kind == EC_KIND_TENSOR ? 1 : instr->args[i]->count;
  }
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * items, err));
  EC_TRY(ec_arena_array(&m->arena, reads + writes, sizeof *instr->reads, "arguments",
                        &instr->reads, err));
  instr->writes = instr->reads + reads;
  for (size_t i = 0; i < op->nargs; i++) {
    if (!has_tensors(instr->args[i])) continue;
    if (!op->args[i].is_out) instr->reads[instr->read_count++] = instr->args[i];
    if (writes_memory(op, i)) instr->writes[instr->write_count++] = instr->args[i];
  }
  return check_outs(instr, err);
}

/* ---- the five instructions --------------------------------------------------------------- */

static ec_status load_kernel(ec_method *m, ec_fb_table plan, ec_fb_table body, ec_instr *instr,
                             ec_error *err) {
  char name[EC_MAX_OP_NAME];
  int32_t index = ec_fb_i32(body, EC_PTE_KernelCall_op_index);
  if (!ec_plan_op_name(plan, index, name, sizeof name))
    return ec_fail(err, EC_INVALID_PROGRAM, "operator %d of %u", index,
                   ec_fb_vector(plan, EC_PTE_ExecutionPlan_operators).count);
  instr->op = m->ops[index];
  ec_status status = load_args(m, ec_fb_vector(body, EC_PTE_KernelCall_args), instr, err);
  if (status == EC_OK) status = check_args(instr, err);
  if (status == EC_OK) status = gather(m, instr, err);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "%s", name);
}

static void unmark(const ec_instr *instr) {
  for (size_t i = 0; i < instr->count; i++) go_over(instr->args[i], UNMARK);
}

/* Which arguments of a delegate are a tensor that it has as another argument, too, and whose shape
 * can change: seen from the first to the last, then from the last to the first. */
static ec_status find_repeated(ec_method *m, ec_instr *instr, ec_error *err) {
  EC_TRY(ec_arena_array(&m->arena, instr->count, sizeof *instr->repeated, "arguments",
                        &instr->repeated, err));
  for (size_t k = 0; k < 2 * instr->count; k++) {
    if (k == instr->count) unmark(instr);
    const size_t i = k < instr->count ? k : 2 * instr->count - 1 - k;
    instr->repeated[i] |= go_over(instr->args[i], MARK);
  }
  unmark(instr);
  return EC_OK;
}

static ec_status load_delegate_call(ec_method *m, ec_fb_table body, ec_instr *instr,
                                    ec_error *err) {
  int32_t index = ec_fb_i32(body, EC_PTE_DelegateCall_delegate_index);
  if (index < 0 || (size_t)index >= m->delegate_count)
    return ec_fail(err, EC_INVALID_PROGRAM, "delegate %d of %zu", index, m->delegate_count);
  instr->delegate = &m->delegates[index];
  EC_TRY(load_args(m, ec_fb_vector(body, EC_PTE_DelegateCall_args), instr, err));
  for (size_t i = 0; i < instr->count; i++)
    if (instr->args[i]->kind > EC_KIND_BOOL)
      return ec_fail(err, EC_NOT_SUPPORTED, "argument %zu of a delegate is a %s", i,
                     ec_kind_name((ec_kind)instr->args[i]->kind));
  EC_TRY(find_repeated(m, instr, err));
  return ec_arena_array(&m->arena, instr->count, sizeof *instr->views, "arguments", &instr->views,
                        err);
}

static ec_status load_slots(ec_method *m, const int32_t *at, size_t count, ec_instr *instr,
                            ec_error *err) {
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *instr->args, "arguments", &instr->args, err));
  instr->count = count;
  for (size_t i = 0; i < count; i++) {
    if (at[i] < 0 || (size_t)at[i] >= m->value_count)
      return ec_fail(err, EC_INVALID_PROGRAM, "value %d of %zu", at[i], m->value_count);
    instr->args[i] = &m->values[at[i]];
  }
  return EC_OK;
}

/* A move keeps the kind of its target: a list item that became something else would deceive the
 * kernels that read the list. */
static ec_status load_move(ec_method *m, ec_fb_table body, ec_instr *instr, ec_error *err) {
  const int32_t at[] = {ec_fb_i32(body, EC_PTE_MoveCall_move_from),
                        ec_fb_i32(body, EC_PTE_MoveCall_move_to)};
  EC_TRY(load_slots(m, at, 2, instr, err));
  const ec_value *from = instr->args[0], *to = instr->args[1];
  if (from->kind != to->kind && !(ec_is_number(from) && ec_is_number(to)))
    return ec_fail(err, EC_INVALID_PROGRAM, "a %s is moved into a %s",
                   ec_kind_name((ec_kind)from->kind), ec_kind_name((ec_kind)to->kind));
  if (from->kind > EC_KIND_BOOL)
    return ec_fail(err, EC_NOT_SUPPORTED, "a %s is moved", ec_kind_name((ec_kind)from->kind));
  if (from->kind != EC_KIND_TENSOR) return EC_OK;
  const ec_tensor *a = from->as.tensor, *b = to->as.tensor;
  if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dim_order, b->dim_order, a->rank))
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "a tensor (%s, rank %u) is moved into one of another kind (%s, rank %u)",
                   ec_dtype_name(ec_tensor_dtype(a)), a->rank, ec_dtype_name(ec_tensor_dtype(b)),
                   b->rank);
  return EC_OK;
}

static ec_status load_jump(ec_method *m, ec_fb_table body, ec_instr *instr, ec_error *err) {
  const int32_t at = ec_fb_i32(body, EC_PTE_JumpFalseCall_cond_value_index);
  int32_t destination = ec_fb_i32(body, EC_PTE_JumpFalseCall_destination_instruction);
  EC_TRY(load_slots(m, &at, 1, instr, err));
  const ec_value *cond = instr->args[0];
  if (!ec_is_number(cond) &&
      !(cond->kind == EC_KIND_TENSOR && ec_tensor_dtype(cond->as.tensor) == EC_BOOL))
    return ec_fail(err, EC_INVALID_PROGRAM, "the condition is a %s%s, expected Bool",
                   ec_kind_name((ec_kind)cond->kind),
                   cond->kind == EC_KIND_TENSOR ? " of another dtype than bool" : "");
  if (destination < 0)
    return ec_fail(err, EC_INVALID_PROGRAM, "a jump to instruction %d", destination);
  instr->destination = (size_t)destination;
  m->has_jumps = true;
  return EC_OK;
}

static ec_status load_free(ec_method *m, ec_fb_table body, ec_instr *instr, ec_error *err) {
  const int32_t at = ec_fb_i32(body, EC_PTE_FreeCall_value_index);
  EC_TRY(load_slots(m, &at, 1, instr, err));
  if (instr->args[0]->kind != EC_KIND_TENSOR)
    return ec_fail(err, EC_INVALID_PROGRAM, "a %s is freed, expected a tensor",
                   ec_kind_name((ec_kind)instr->args[0]->kind));
  return EC_OK;
}

static ec_status load_instr(ec_method *m, ec_fb_table plan, ec_fb_table table, ec_instr *instr,
                            ec_error *err) {
  uint8_t type = ec_fb_u8(table, EC_PTE_Instruction_instr_args_type);
  ec_fb_table body = ec_fb_child(table, EC_PTE_Instruction_instr_args);
  if (type < EC_PTE_KERNEL_CALL || type > EC_PTE_FREE_CALL || !body)
    return ec_fail(err, EC_INVALID_PROGRAM, "unknown kind %u, or no arguments", type);
  instr->kind = (uint8_t)(type - EC_PTE_KERNEL_CALL);
  switch ((ec_instr_kind)instr->kind) {
  case EC_INSTR_KernelCall: return load_kernel(m, plan, body, instr, err);
  case EC_INSTR_DelegateCall: return load_delegate_call(m, body, instr, err);
  case EC_INSTR_MoveCall: return load_move(m, body, instr, err);
  case EC_INSTR_JumpFalseCall: return load_jump(m, body, instr, err);
  case EC_INSTR_FreeCall: return load_free(m, body, instr, err);
  }
  return EC_OK;
}

/* ---- outputs of delegates ---------------------------------------------------------------- */

static void touch(ec_method *m, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR) ec_home_of(m, v->as.tensor)->touched = true;
  if (v->kind == EC_KIND_TENSOR_LIST || v->kind == EC_KIND_OPTIONAL_TENSOR_LIST)
    for (uint32_t i = 0; i < v->count; i++) touch(m, v->as.items[i]);
}

/* Inputs, constants and state have a value before any instruction runs; state is known already. */
static void touch_first(ec_method *m) {
  for (size_t i = 0; i < m->input_count; i++) touch(m, m->inputs[i].value);
  for (size_t i = 0; i < m->tensor_count; i++)
    if (m->homes[i].flags & EC_TENSOR_READONLY) m->homes[i].touched = true;
}

/* The file does not say it: the last arguments, as far as nobody has written them before. */
static void find_outputs(ec_method *m, ec_instr *in) {
  size_t n = in->count;
  while (in->delegate && n && in->args[n - 1]->kind == EC_KIND_TENSOR &&
         !ec_home_of(m, in->args[n - 1]->as.tensor)->touched)
    n--;
  in->outputs_from = n;
  for (size_t i = 0; i < in->count; i++) touch(m, in->args[i]);
}

static ec_status load_chain(ec_method *m, ec_fb_table plan, ec_fb_table table, ec_chain *chain,
                            ec_error *err) {
  ec_fb_vec instrs = ec_fb_vector(table, EC_PTE_Chain_instructions);
  if (!instrs.items) return ec_fail(err, EC_INVALID_PROGRAM, "instructions are missing");
  EC_TRY(ec_arena_array(&m->arena, instrs.count, sizeof *chain->instrs, "instructions",
                        &chain->instrs, err));
  chain->count = instrs.count;
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * (uint64_t)instrs.count, err));
  for (uint32_t i = 0; i < instrs.count; i++) {
    chain->instrs[i].number = i;
    ec_status status = load_instr(m, plan, ec_fb_vec_table(instrs, i), &chain->instrs[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "instruction %u", i);
    find_outputs(m, &chain->instrs[i]);
  }
  return EC_OK;
}

ec_status ec_load_chains(ec_method *m, ec_fb_table plan, ec_error *err) {
  ec_fb_vec chains = ec_fb_vector(plan, EC_PTE_ExecutionPlan_chains);
  if (!chains.count) return ec_fail(err, EC_INVALID_PROGRAM, "chains are missing");
  EC_TRY(check_operators(m, plan, err));
  EC_TRY(ec_arena_array(&m->arena, chains.count, sizeof *m->chains, "chains", &m->chains, err));
  m->chain_count = chains.count;
  touch_first(m);
  for (uint32_t i = 0; i < chains.count; i++) {
    ec_status status = load_chain(m, plan, ec_fb_vec_table(chains, i), &m->chains[i], err);
    if (status != EC_OK) return chains.count == 1 ? status : ec_fail_in(err, status, "chain %u", i);
  }
  return EC_OK;
}
