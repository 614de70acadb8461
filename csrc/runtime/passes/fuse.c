/* Safe softmax.
 *
 * torch.export decomposes attention with a mask into a softmax and six calls that replace its NaNs
 * by zeros in rows of -inf: seven passes over the scores. If nothing else reads what lies between,
 * one softmax computes the result of the last call, at the place of the first one; the others are
 * skipped. If a delegate has the softmax, one `where` copies its rows, or clears them. The calls
 * are adjacent, so that nothing can read or write memory between them. A traced call executes all
 * of them. */
#include "runtime/passes/fuse.h"

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

/* The orders in which exporters write the calls; the partitioner moves what a delegate's result is
 * ready for. */
static const struct order {
  uint8_t count, parts[CALLS];
} orders[] = {
    {7, {SOFTMAX, EQUAL, FINITE, ANY, NONE, ZEROS, WHERE}},
    {6, {EQUAL, ZEROS, FINITE, ANY, NONE, WHERE}},
    {6, {EQUAL, FINITE, ANY, NONE, ZEROS, WHERE}},
};

typedef struct run {
  const ec_uses *uses;
  ec_instr *calls[CALLS]; /* SOFTMAX: NULL if a delegate computes it */
  ec_instr *first, *last;
} run;

static const ec_value *arg_of(const run *r, size_t part, size_t i) {
  return r->calls[part]->args[i];
}

static const ec_value *out_of(const run *r, size_t part) {
  return arg_of(r, part, calls[part].out);
}

static const ec_value *scores_of(const run *r) { return arg_of(r, EQUAL, 0); }

static const ec_value *softmax_of(const run *r) { return arg_of(r, WHERE, 2); }

static const ec_tensor *tensor_of(const ec_value *v) { return v->as.tensor; }

static bool is_call(const ec_uses *uses, size_t at, size_t part) {
  const ec_instr *in = &uses->m->instrs[at];
  return in->op && !in->op->custom && ec_plan_is(uses->m, at, EC_NO_PASS) &&
         strcmp(in->op->name, calls[part].op) == 0;
}

/* Finds the calls in one of the orders, from an instruction on. */
static bool find_run(const ec_uses *uses, size_t at, const struct order *order, run *r) {
  *r = (run){.uses = uses};
  if (order->count > uses->m->instr_count - at) return false;
  for (size_t i = 0; i < order->count; i++) {
    if (!is_call(uses, at + i, order->parts[i])) return false;
    r->calls[order->parts[i]] = r->last = &uses->m->instrs[at + i];
  }
  r->first = &uses->m->instrs[at];
  return true;
}

static bool are_numbers_fixed(const run *r) {
  for (size_t i = 0; i < CALLS; i++)
    for (size_t k = 0; r->calls[i] && k < r->calls[i]->op->nargs; k++)
      if (arg_of(r, i, k)->kind != EC_KIND_TENSOR && !ec_is_fixed(r->uses, arg_of(r, i, k)))
        return false;
  return true;
}

/* True if the calls read each other's results: where(not any(not (x == -inf)), 0, softmax(x)). */
static bool is_connected(const run *r) {
  const ec_value *softmax = softmax_of(r);
  if (r->calls[SOFTMAX] &&
      (arg_of(r, SOFTMAX, 0) != scores_of(r) || out_of(r, SOFTMAX) != softmax))
    return false;
  return arg_of(r, FINITE, 0) == out_of(r, EQUAL) && arg_of(r, ANY, 0) == out_of(r, FINITE) &&
         arg_of(r, NONE, 0) == out_of(r, ANY) && arg_of(r, ZEROS, 0) == softmax &&
         arg_of(r, WHERE, 0) == out_of(r, NONE) && arg_of(r, WHERE, 1) == out_of(r, ZEROS);
}

static bool is_last_dim(const run *r, size_t part) {
  const int64_t dim = ec_value_int(arg_of(r, part, 1));
  return dim == -1 || dim == tensor_of(scores_of(r))->rank - 1;
}

/* True if softmax and any reduce the last dimension, which any keeps, and the numbers are -inf and
 * zero. */
static bool have_numbers(const run *r) {
  if (r->calls[SOFTMAX] && (!is_last_dim(r, SOFTMAX) || ec_value_bool(arg_of(r, SOFTMAX, 2))))
    return false;
  return tensor_of(scores_of(r))->rank > 0 && is_last_dim(r, ANY) &&
         ec_value_bool(arg_of(r, ANY, 2)) &&
         ec_scalar_double(ec_value_scalar(arg_of(r, EQUAL, 1))) == -(double)INFINITY &&
         ec_scalar_double(ec_value_scalar(arg_of(r, ZEROS, 1))) == 0;
}

/* True if a tensor has the shape of the scores, or of their rows, and this dtype. */
static bool has_shape(const run *r, const ec_tensor *t, bool is_row, uint8_t dtype) {
  const ec_tensor *x = tensor_of(scores_of(r));
  if (t->dynamism != x->dynamism || t->rank != x->rank || t->dtype != dtype) return false;
  for (size_t d = 0; d < t->rank; d++)
    if (t->sizes[d] != (is_row && d + 1u == t->rank ? 1 : x->sizes[d])) return false;
  return true;
}

/* True if the tensors have the shapes and dtypes of the calls, or all of them have these bounds. */
static bool have_shapes(const run *r) {
  const ec_tensor *x = tensor_of(scores_of(r));
  if (x->dynamism == EC_DYNAMIC_UNBOUND) return false;
  for (size_t i = EQUAL; i < CALLS; i++) {
    const bool is_bool = i == EQUAL || i == FINITE || i == ANY || i == NONE;
    if (!has_shape(r, tensor_of(out_of(r, i)), i == ANY || i == NONE,
                   is_bool ? (uint8_t)EC_BOOL : x->dtype))
      return false;
  }
  return has_shape(r, tensor_of(softmax_of(r)), false, x->dtype) &&
         ec_tensor_same_layout(x, tensor_of(out_of(r, WHERE))) && ec_tensor_is_contiguous(x);
}

/* True if `where` can compute the result: its loop is for static float32. */
static bool can_clear(const run *r) {
  const ec_tensor *x = tensor_of(scores_of(r));
  return x->dynamism == EC_STATIC && x->dtype == EC_FLOAT32 &&
         ec_tensor_same_layout(x, tensor_of(softmax_of(r)));
}

/* True if the last output may be written while a tensor is read, row by row. */
static bool may_overwrite(const run *r, const ec_value *read) {
  const ec_placement *from = ec_placement_of(r->uses->m, tensor_of(read));
  const ec_placement *out = ec_placement_of(r->uses->m, tensor_of(out_of(r, WHERE)));
  return !ec_placements_overlap(from, out) ||
         (from->offset == out->offset && from->nbytes == out->nbytes);
}

static size_t index_of(const run *r, const ec_instr *in) {
  return (size_t)(in - r->uses->m->instrs);
}

static bool is_safe_softmax(const run *r) {
  if (!is_connected(r) || !are_numbers_fixed(r) || !have_numbers(r) || !have_shapes(r))
    return false;
  if (!r->calls[SOFTMAX] && (!can_clear(r) || !may_overwrite(r, softmax_of(r)))) return false;
  const ec_use *use = &r->uses->rows[ec_use_index(r->uses, out_of(r, WHERE))];
  if (!may_overwrite(r, scores_of(r)) || use->inputs || use->is_view) return false;
  for (size_t i = 0; i < WHERE; i++)
    if (r->calls[i] && !ec_is_private(r->uses, ec_use_index(r->uses, out_of(r, i)),
                                      index_of(r, r->calls[i]), index_of(r, r->last)))
      return false;
  return true;
}

/* Makes the call that replaces the run: the softmax with the last output, or the `where` with the
 * scores as its condition. */
static ec_status fuse_run(ec_method *m, run *r, ec_error *err) {
  const ec_instr *where = r->calls[WHERE];
  const bool clears = !r->calls[SOFTMAX];
  ec_instr *call;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *call, "an instruction", &call, err));
  *call = clears ? *where : *r->calls[SOFTMAX];
  ec_value *const *from = call->args;
  EC_TRY(ec_arena_array(&m->arena, call->count, sizeof *call->args, "arguments", &call->args, err));
  memcpy(call->args, from, call->count * sizeof *call->args);
  if (clears) {
    call->args[0] = r->calls[EQUAL]->args[0];
    call->args[1] = where->args[2];
    call->reads = call->args;
    call->read_count = calls[WHERE].out;
  } else {
    call->args[calls[SOFTMAX].out] = where->args[calls[WHERE].out];
    call->writes = where->writes;
    call->write_count = where->write_count;
  }
  const size_t first = index_of(r, r->first), end = index_of(r, r->last) + 1;
  const ec_step step = {.kind = EC_STEP_KernelCall, .pass = EC_PASS_fuse, .zero_rows = true,
                        .first = (uint32_t)first, .count = (uint32_t)(end - first), .run = call};
  return ec_plan_replace(m, step, false, err);
}

ec_status ec_fuse_calls(ec_pass_context *p, ec_error *err) {
  run r;
  for (size_t i = 0; i < p->m->instr_count; i++)
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++)
      if (find_run(p->uses, i, &orders[k], &r) && is_safe_softmax(&r))
        EC_TRY(fuse_run(p->m, &r, err));
  return EC_OK;
}
