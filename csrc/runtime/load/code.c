/* Instructions: operators resolved, arguments converted to pointers, every call checked against its
 * operator's schema. Kernels read their arguments without checks. */
#include "runtime/load/code.h"

#include <string.h>

/* ---- operators --------------------------------------------------------------------------- */

ec_status ec_load_operators(ec_method *m, const ec_rows *rows, ec_error *err) {
  char name[EC_OP_NAME_BYTES];
  const uint32_t count = rows->operators.count;
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *m->ops, "operators", &m->ops, err));
  m->op_count = count;
  for (uint32_t i = 0; i < count; i++)
    if (ec_decode_op_name(rows, (int32_t)i, name)) m->ops[i] = ec_op_acquire(name);
  return EC_OK;
}

/* Appends which release of ExecuTorch wrote an operator that later ones do not have. */
static void append_release(ec_error *err, const char *name) {
  static const struct {
    const char *begin, *text;
  } former[] = {
#define EC_FORMER_OPERATOR(begin, releases, why)                                                   \
  {begin, " (of ExecuTorch " releases "; " why ": export the model again)"},
#include "kernels/former.def"
#undef EC_FORMER_OPERATOR
  };
  for (size_t i = 0; i < sizeof former / sizeof *former; i++)
    if (!strncmp(name, former[i].begin, strlen(former[i].begin)))
      ec_error_append(err, "%s", former[i].text);
}

/* Fails with one message that lists every operator of the method without a kernel. */
static ec_status check_operators(ec_method *m, const ec_rows *rows, ec_error *err) {
  const char *name;
  size_t missing = 0;
  for (uint32_t i = 0; i < rows->operators.count; i++) {
    if (m->ops[i]) continue;
    EC_TRY(ec_copy_op_name(rows, i, &m->scratch, &name, err));
    if (missing++ == 0) ec_fail(err, EC_OPERATOR_MISSING, "no kernel for %s", name);
    else ec_error_append(err, ", %s", name);
    append_release(err, name);
  }
  return missing ? EC_OPERATOR_MISSING : EC_OK;
}

/* ---- arguments --------------------------------------------------------------------------- */

static ec_status load_args(ec_method *m, const ec_instr_row *row, ec_instr *instr, ec_error *err) {
  EC_TRY(ec_arena_array(&m->arena, row->arg_count, sizeof *instr->args, "arguments", &instr->args,
                        err));
  instr->count = row->arg_count;
  for (size_t i = 0; i < row->arg_count; i++) instr->args[i] = &m->values[ec_row_arg(row, i)];
  return EC_OK;
}

/* True if the value has the argument's kind. All numbers are one kind: see core/value.h. */
static bool accepts_value(const ec_arg_spec *spec, const ec_value *v) {
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
    if (!accepts_value(&op->args[i], instr->args[i]))
      return ec_fail(err, EC_INVALID_PROGRAM, "argument '%s' is a %s, expected %s%s%s",
                     op->args[i].name, ec_kind_name((ec_kind)instr->args[i]->kind),
                     type_names[op->args[i].type], op->args[i].is_list ? " list" : "",
                     op->args[i].optional ? " or None" : "");
  if (op->returns_scalar && !ec_is_number(instr->args[op->nargs]))
    return ec_fail(err, EC_INVALID_PROGRAM, "the result goes into a %s, expected a number",
                   ec_kind_name((ec_kind)instr->args[op->nargs]->kind));
  return ec_op_check_float8(op, instr->args, err);
}

static bool holds_tensors(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR || ec_is_tensor_list(v);
}

/* True if the operator writes argument `i`. et_view only redirects its out, maybe to a constant. */
static bool writes_memory(const ec_op *op, size_t i) {
  return op->args[i].written && !op->makes_view;
}

typedef enum marking { MARK, TEST, CLEAR } marking;

/* Marks resizable tensors, also inside a list. Returns true if any was marked before. */
static bool mark_resizable(const ec_value *v, marking how) {
  bool marked = false;
  if (ec_is_tensor_list(v))
    for (uint32_t i = 0; i < v->count; i++) marked |= mark_resizable(v->as.items[i], how);
  if (v->kind != EC_KIND_TENSOR || v->as.tensor->dynamism == EC_STATIC) return marked;
  ec_tensor *t = v->as.tensor;
  marked = (t->flags & EC_TENSOR_MARKED) != 0;
  if (how == MARK) t->flags |= EC_TENSOR_MARKED;
  if (how == CLEAR) t->flags &= (uint8_t)~EC_TENSOR_MARKED;
  return marked;
}

/* Fails if an output that can be resized is also another argument: kernels read shapes before and
 * after they resize outputs. Slots keep their tensors, so the check holds for every call. */
static ec_status check_outs_distinct(const ec_instr *instr, ec_error *err) {
  const ec_op *op = instr->op;
  bool marked = false;
  for (size_t i = 0; i < op->nargs; i++)
    if (writes_memory(op, i) && op->args[i].is_out) marked |= mark_resizable(instr->args[i], MARK);
  for (size_t i = 0; i < instr->read_count; i++) marked |= mark_resizable(instr->reads[i], TEST);
  for (size_t i = 0; i < op->nargs; i++)
    if (writes_memory(op, i) && op->args[i].is_out) mark_resizable(instr->args[i], CLEAR);
  return !marked ? EC_OK
                : ec_fail(err, EC_INVALID_PROGRAM,
                          "an output whose shape can change is another argument, too");
}

/* Collects the tensors that a call reads and writes. An `out` is only written; a written `self`
 * (copy_, index_put_) is read, too. Lists are walked here and in the plan once per call, because a
 * file may pass one list to many calls. */
static ec_status collect_tensor_args(ec_method *m, ec_instr *instr, ec_error *err) {
  const ec_op *op = instr->op;
  size_t reads = 0, writes = 0;
  uint64_t items = 0;
  for (size_t i = 0; i < op->nargs; i++) {
    if (!holds_tensors(instr->args[i])) continue;
    reads += !op->args[i].is_out;
    writes += writes_memory(op, i);
    items += instr->args[i]->kind == EC_KIND_TENSOR ? 1 : instr->args[i]->count;
  }
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * items, err));
  EC_TRY(ec_arena_array(&m->arena, reads + writes, sizeof *instr->reads, "arguments",
                        &instr->reads, err));
  instr->writes = instr->reads + reads;
  for (size_t i = 0; i < op->nargs; i++) {
    if (!holds_tensors(instr->args[i])) continue;
    if (!op->args[i].is_out) instr->reads[instr->read_count++] = instr->args[i];
    if (writes_memory(op, i)) instr->writes[instr->write_count++] = instr->args[i];
  }
  return check_outs_distinct(instr, err);
}

/* ---- the five instructions --------------------------------------------------------------- */

static ec_status load_kernel_call(ec_method *m, const ec_instr_row *row, ec_instr *instr,
                                  ec_error *err) {
  instr->op = m->ops[row->op];
  ec_status status = check_args(instr, err);
  if (status == EC_OK) status = collect_tensor_args(m, instr, err);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "%s", instr->op->name);
}

static void clear_marks(const ec_instr *instr) {
  for (size_t i = 0; i < instr->count; i++) mark_resizable(instr->args[i], CLEAR);
}

/* Finds arguments of a delegate that share a resizable tensor with another argument, in a forward
 * and a backward pass. */
static ec_status find_repeated_args(ec_method *m, ec_instr *instr, ec_error *err) {
  EC_TRY(ec_arena_array(&m->arena, instr->count, sizeof *instr->repeated, "arguments",
                        &instr->repeated, err));
  for (size_t k = 0; k < 2 * instr->count; k++) {
    if (k == instr->count) clear_marks(instr);
    const size_t i = k < instr->count ? k : 2 * instr->count - 1 - k;
    instr->repeated[i] |= mark_resizable(instr->args[i], MARK);
  }
  clear_marks(instr);
  return EC_OK;
}

static ec_status load_delegate_call(ec_method *m, const ec_instr_row *row, ec_instr *instr,
                                    ec_error *err) {
  instr->delegate = &m->delegates[row->delegate];
  for (size_t i = 0; i < instr->count; i++)
    if (instr->args[i]->kind > EC_KIND_BOOL)
      return ec_fail(err, EC_NOT_SUPPORTED, "argument %zu of a delegate is a %s", i,
                     ec_kind_name((ec_kind)instr->args[i]->kind));
  EC_TRY(find_repeated_args(m, instr, err));
  return ec_arena_array(&m->arena, instr->count, sizeof *instr->views, "arguments", &instr->views,
                        err);
}

/* Checks that a move keeps the kind of its target. Kernels rely on the kinds of list items. */
static ec_status check_move(const ec_instr *instr, ec_error *err) {
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

static ec_status load_jump(ec_method *m, const ec_instr_row *row, ec_instr *instr, ec_error *err) {
  const ec_value *cond = instr->args[0];
  if (!ec_is_number(cond) &&
      !(cond->kind == EC_KIND_TENSOR && ec_tensor_dtype(cond->as.tensor) == EC_BOOL))
    return ec_fail(err, EC_INVALID_PROGRAM, "the condition is a %s%s, expected Bool",
                   ec_kind_name((ec_kind)cond->kind),
                   cond->kind == EC_KIND_TENSOR ? " of another dtype than bool" : "");
  instr->destination = (size_t)row->destination;
  m->has_jumps = true;
  return EC_OK;
}

static ec_status check_free(const ec_instr *instr, ec_error *err) {
  if (instr->args[0]->kind != EC_KIND_TENSOR)
    return ec_fail(err, EC_INVALID_PROGRAM, "a %s is freed, expected a tensor",
                   ec_kind_name((ec_kind)instr->args[0]->kind));
  return EC_OK;
}

static ec_status load_instr(ec_method *m, const ec_rows *rows, ec_fb_table table, ec_instr *instr,
                            ec_error *err) {
  ec_instr_row row;
  EC_TRY(ec_decode_instr(rows, table, &row, err));
  EC_TRY(load_args(m, &row, instr, err));
  instr->kind = row.kind;
  switch ((ec_instr_kind)row.kind) {
  case EC_INSTR_KernelCall: return load_kernel_call(m, &row, instr, err);
  case EC_INSTR_DelegateCall: return load_delegate_call(m, &row, instr, err);
  case EC_INSTR_MoveCall: return check_move(instr, err);
  case EC_INSTR_JumpFalseCall: return load_jump(m, &row, instr, err);
  case EC_INSTR_FreeCall: return check_free(instr, err);
  case EC_INSTR_KINDS: break;
  }
  return EC_OK;
}

/* ---- outputs of delegates ---------------------------------------------------------------- */

static void define_value(ec_method *m, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR) ec_placement_of(m, v->as.tensor)->defined = true;
  if (ec_is_tensor_list(v))
    for (uint32_t i = 0; i < v->count; i++) define_value(m, v->as.items[i]);
}

/* Marks inputs, constants and state as defined before the first instruction; state is known
 * already. */
static void define_initial_values(ec_method *m) {
  for (size_t i = 0; i < m->input_count; i++) define_value(m, m->inputs[i].value);
  for (size_t i = 0; i < m->tensor_count; i++)
    if (m->placements[i].flags & EC_TENSOR_READONLY) m->placements[i].defined = true;
}

/* Finds the outputs of a delegate call, which the file does not mark: the trailing arguments that
 * no earlier instruction wrote. */
static void find_delegate_outputs(ec_method *m, ec_instr *in) {
  size_t n = in->count;
  while (in->delegate && n && in->args[n - 1]->kind == EC_KIND_TENSOR &&
         !ec_placement_of(m, in->args[n - 1]->as.tensor)->defined)
    n--;
  in->outputs_from = n;
  for (size_t i = 0; i < in->count; i++) define_value(m, in->args[i]);
}

/* Loads a chain into the instructions from m->instr_count on. */
static ec_status load_chain(ec_method *m, const ec_rows *rows, uint32_t index, ec_error *err) {
  ec_chain *chain = &m->chains[index];
  ec_fb_vec instrs = ec_decode_chain(rows, index);
  if (!instrs.items) return ec_fail(err, EC_INVALID_PROGRAM, "instructions are missing");
  *chain = (ec_chain){&m->instrs[m->instr_count], instrs.count};
  m->instr_count += instrs.count;
  for (uint32_t i = 0; i < instrs.count; i++) {
    chain->instrs[i].number = i;
    ec_status status = load_instr(m, rows, ec_fb_vec_table(instrs, i), &chain->instrs[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "instruction %u", i);
    find_delegate_outputs(m, &chain->instrs[i]);
  }
  return EC_OK;
}

/* Allocates the instructions of all chains. Chains of a file may share theirs. */
static ec_status allocate_instrs(ec_method *m, const ec_rows *rows, ec_error *err) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < rows->chains.count; i++) count += ec_decode_chain(rows, i).count;
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * count, err));
  return ec_arena_array(&m->arena, (size_t)count, sizeof *m->instrs, "instructions", &m->instrs,
                        err);
}

ec_status ec_load_chains(ec_method *m, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->chains.count;
  if (!count) return ec_fail(err, EC_INVALID_PROGRAM, "chains are missing");
  EC_TRY(check_operators(m, rows, err));
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *m->chains, "chains", &m->chains, err));
  m->chain_count = count;
  EC_TRY(allocate_instrs(m, rows, err));
  define_initial_values(m);
  for (uint32_t i = 0; i < count; i++) {
    ec_status status = load_chain(m, rows, i, err);
    if (status != EC_OK) return count == 1 ? status : ec_fail_in(err, status, "chain %u", i);
  }
  return EC_OK;
}
