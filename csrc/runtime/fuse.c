/* Safe softmax.
 *
 * torch.export decomposes attention with a mask into a softmax and six calls that replace its NaNs
 * by zeros in rows of -inf: seven passes over the scores. If nothing else reads what lies between,
 * one softmax computes the result of the last call, at the place of the first one; the others are
 * skipped. The calls are adjacent, so that nothing can read or write memory between them. A traced
 * call executes all of them. */
#include "runtime/fuse.h"

#include <math.h>
#include <string.h>

enum { SOFTMAX, EQUAL, FINITE, ANY, NONE, ZEROS, WHERE, CALLS };

/* The operators, and their `out` arguments. */
static const struct {
  const char *op;
  size_t out;
} calls[CALLS] = {
    [SOFTMAX] = {"aten::_softmax.out", 3},    [EQUAL] = {"aten::eq.Scalar_out", 2},
    [FINITE] = {"aten::logical_not.out", 1},  [ANY] = {"aten::any.out", 3},
    [NONE] = {"aten::logical_not.out", 1},    [ZEROS] = {"aten::full_like.out", 3},
    [WHERE] = {"aten::where.self_out", 3},
};

static const ec_value *out_of(const ec_instr *run, size_t i) { return run[i].args[calls[i].out]; }

static const ec_tensor *tensor_of(const ec_value *v) { return v->as.tensor; }

static bool have_operators(const ec_instr *run) {
  for (size_t i = 0; i < CALLS; i++) {
    const ec_op *op = run[i].op;
    if (!op || op->custom || run[i].folded || strcmp(op->name, calls[i].op) != 0) return false;
  }
  return true;
}

static bool are_numbers_fixed(const ec_uses *uses, const ec_instr *run) {
  for (size_t i = 0; i < CALLS; i++)
    for (size_t k = 0; k < run[i].op->nargs; k++)
      if (run[i].args[k]->kind != EC_KIND_TENSOR && !ec_is_fixed(uses, run[i].args[k]))
        return false;
  return true;
}

/* True if the calls read each other's results: where(not any(not (x == -inf)), 0, softmax(x)). */
static bool is_connected(const ec_instr *run) {
  const ec_value *x = run[SOFTMAX].args[0], *softmax = out_of(run, SOFTMAX);
  return run[EQUAL].args[0] == x && run[FINITE].args[0] == out_of(run, EQUAL) &&
         run[ANY].args[0] == out_of(run, FINITE) && run[NONE].args[0] == out_of(run, ANY) &&
         run[ZEROS].args[0] == softmax && run[WHERE].args[0] == out_of(run, NONE) &&
         run[WHERE].args[1] == out_of(run, ZEROS) && run[WHERE].args[2] == softmax;
}

/* True if softmax and any reduce the last dimension, which any keeps, and the numbers are -inf and
 * zero. */
static bool have_numbers(const ec_instr *run) {
  const int64_t rank = tensor_of(run[SOFTMAX].args[0])->rank;
  const int64_t dims[2] = {ec_value_int(run[SOFTMAX].args[1]), ec_value_int(run[ANY].args[1])};
  for (size_t i = 0; i < 2; i++)
    if (dims[i] != -1 && dims[i] != rank - 1) return false;
  return rank > 0 && ec_value_bool(run[ANY].args[2]) && !ec_value_bool(run[SOFTMAX].args[2]) &&
         ec_scalar_double(ec_value_scalar(run[EQUAL].args[1])) == -(double)INFINITY &&
         ec_scalar_double(ec_value_scalar(run[ZEROS].args[1])) == 0;
}

/* True if the tensors have the shapes and dtypes of the calls, or all of them have these bounds. */
static bool have_shapes(const ec_instr *run) {
  const ec_tensor *x = tensor_of(run[SOFTMAX].args[0]);
  if (x->dynamism == EC_DYNAMIC_UNBOUND) return false;
  for (size_t i = 0; i < CALLS; i++) {
    const ec_tensor *t = tensor_of(out_of(run, i));
    const bool is_bool = i == EQUAL || i == FINITE || i == ANY || i == NONE;
    const bool is_row = i == ANY || i == NONE;
    if (t->dynamism != x->dynamism || t->rank != x->rank ||
        t->dtype != (is_bool ? (uint8_t)EC_BOOL : x->dtype))
      return false;
    for (size_t d = 0; d < t->rank; d++)
      if (t->sizes[d] != (is_row && d + 1u == t->rank ? 1 : x->sizes[d])) return false;
  }
  return ec_tensor_same_layout(x, tensor_of(out_of(run, WHERE))) && ec_tensor_is_contiguous(x);
}

/* True if the last output may be written while the scores are read, row by row. */
static bool may_overwrite(const ec_placement *scores, const ec_placement *out) {
  return !ec_placements_overlap(scores, out) ||
         (scores->offset == out->offset && scores->nbytes == out->nbytes);
}

static bool is_safe_softmax(const ec_uses *uses, const ec_instr *run, size_t at) {
  if (!have_operators(run) || !is_connected(run) || !are_numbers_fixed(uses, run) ||
      !have_numbers(run) || !have_shapes(run))
    return false;
  const ec_placement *x = ec_placement_of(uses->m, tensor_of(run[SOFTMAX].args[0]));
  const ec_placement *out = ec_placement_of(uses->m, tensor_of(out_of(run, WHERE)));
  const ec_use *use = &uses->rows[ec_use_index(uses, out_of(run, WHERE))];
  if (!may_overwrite(x, out) || use->inputs || use->is_view) return false;
  for (size_t i = 0; i < WHERE; i++)
    if (!ec_is_private(uses, ec_use_index(uses, out_of(run, i)), at + i, at + WHERE)) return false;
  return true;
}

/* Makes the call that replaces the run: the softmax with the last output. */
static ec_status fuse_run(ec_method *m, ec_instr *run, ec_error *err) {
  ec_instr *call;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *call, "an instruction", &call, err));
  *call = run[SOFTMAX];
  call->zero_rows = true;
  EC_TRY(ec_arena_array(&m->arena, call->count, sizeof *call->args, "arguments", &call->args, err));
  memcpy(call->args, run[SOFTMAX].args, call->count * sizeof *call->args);
  call->args[calls[SOFTMAX].out] = run[WHERE].args[calls[WHERE].out];
  call->writes = run[WHERE].writes;
  call->write_count = run[WHERE].write_count;
  for (size_t i = 0; i < CALLS; i++) run[i].fused = true;
  run[SOFTMAX].fusion = call;
  return EC_OK;
}

ec_status ec_fuse_calls(ec_method *m, const ec_uses *uses, ec_error *err) {
  if (m->has_jumps || m->chain_count != 1 || m->options.reference_kernels) return EC_OK;
  if (!ec_can_compare(m->tensor_count, m->tensor_count)) return EC_OK;
  for (size_t i = 0; i + CALLS <= m->instr_count; i++) {
    if (!have_operators(&m->instrs[i])) continue;
    ec_find_elided_views(uses);
    break;
  }
  for (size_t i = 0; i + CALLS <= m->instr_count; i++)
    if (is_safe_softmax(uses, &m->instrs[i], i)) EC_TRY(fuse_run(m, &m->instrs[i], err));
  return EC_OK;
}
