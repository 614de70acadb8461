/* Load-time delegation.
 *
 * Maximal runs of kernel calls that a backend can take become one call of that backend each. They
 * end at moves, frees, delegates, other operators, views, and writes to state: everything that
 * happens between two calls of a run is another call of it. The instructions stay: a traced call
 * executes the kernels, so that traces have every operator with its own name and handle, and can be
 * compared with calls that are not traced. */
#include "runtime/passes/delegate.h"

#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "runtime/passes/delegate_run.h"
#include "runtime/passes/fold.h"
#include "runtime/host_call.h"
#include "runtime/load/options.h"

enum {
  MAX_REASONS = 64,
  MAX_REFUSALS = 100, /* of single calls of a run: each makes it be built again */
  MIN_ELEMENTS = 4000 /* of a method that may have a call worth a delegate */
};

/* ---- calls that are left to kernels ---------------------------------------------------------- */

/* Notes why a call is left to its kernel: one row for each operator and reason. */
static ec_status note_undelegated(ec_method *m, const char *op, const char *reason, ec_error *err) {
  for (size_t i = 0; i < m->undelegated_count; i++) {
    ec_undelegated *row = &m->undelegated[i];
    if (row->op != op || strcmp(row->reason, reason) != 0) continue;
    row->calls++;
    return EC_OK;
  }
  if (!m->undelegated)
    EC_TRY(ec_arena_array(&m->arena, MAX_REASONS, sizeof *m->undelegated, "reasons",
                          &m->undelegated, err));
  if (m->undelegated_count == MAX_REASONS) return EC_OK;
  const size_t size = strlen(reason) + 1;
  char *copy;
  EC_TRY(ec_arena_array(&m->arena, size, 1, "a reason", &copy, err));
  memcpy(copy, reason, size);
  m->undelegated[m->undelegated_count++] = (ec_undelegated){op, copy, 1};
  return EC_OK;
}

static const char fused[] = "fused with other calls";

static bool is_fused(const ec_method *m, size_t at) {
  return ec_plan_is(m, at, EC_PASS_fuse) || ec_plan_is(m, at, EC_PASS_attend);
}

/* Notes one reason for all kernel calls of a method. */
static ec_status note_all(ec_method *m, const char *reason, ec_error *err) {
  for (size_t i = 0; i < m->instr_count; i++)
    if (m->instrs[i].op && !ec_is_folded(m, &m->instrs[i]))
      EC_TRY(note_undelegated(m, m->instrs[i].op->name, is_fused(m, i) ? fused : reason, err));
  return EC_OK;
}

/* Notes the backend's message for the calls of a run. */
static ec_status note_refused(const ec_run_analysis *c, const ec_delegate_run *r, ec_error *err) {
  char reason[EC_ERROR_SIZE] = "their results are not read";
  if (r->output_count) snprintf(reason, sizeof reason, "%s", err ? err->message : "refused");
  ec_error_clear(err);
  for (size_t i = r->first; i < r->end; i++)
    if (!ec_is_folded(c->m, &c->instrs[i]))
      EC_TRY(note_undelegated(c->m, c->instrs[i].op->name, reason, err));
  return EC_OK;
}

/* ---- one run --------------------------------------------------------------------------------- */

static bool is_resizable(const ec_delegate_run *r, size_t i) {
  return r->slots[i]->as.tensor->dynamism != EC_STATIC;
}

/* Makes the instruction that replaces the run, apart from its delegate. */
static ec_status make_call(ec_run_analysis *c, const ec_delegate_run *r, ec_instr *call,
                           ec_error *err) {
  const size_t count = r->input_count + r->output_count;
  ec_arena *arena = &c->m->arena;
  *call = (ec_instr){.kind = EC_INSTR_DelegateCall, .number = c->instrs[r->first].number,
                     .count = count, .outputs_from = r->input_count};
  EC_TRY(ec_arena_array(arena, count, sizeof *call->args, "arguments", &call->args, err));
  EC_TRY(ec_arena_array(arena, count, sizeof *call->views, "arguments", &call->views, err));
  EC_TRY(ec_arena_array(arena, count, 1, "arguments", &call->repeated, err));
  for (size_t i = 0; i < count; i++) {
    call->args[i] = r->slots[i];
    for (size_t k = r->input_count; k < count && is_resizable(r, i); k++)
      if (k != i && r->slots[i]->as.tensor == r->slots[k]->as.tensor)
        call->repeated[i] = call->repeated[k] = true;
  }
  return EC_OK;
}

/* Lets the backend compile the run. A refusal has no effect but a message in `err`. A lack of
 * memory is an error: the results of a method must not depend on it. */
static ec_status compile_run(ec_run_analysis *c, const ec_delegate_run *r, ec_delegate *d,
                             ec_error *err) {
  ec_method *m = c->m;
  const ec_backend_run run = {.struct_size = sizeof run, .calls = r->calls,
                              .call_count = r->call_count, .inputs = r->values,
                              .input_count = r->input_count, .outputs = r->values + r->input_count,
                              .output_count = r->output_count, .value_count = r->value_count,
                              .always = m->options.delegation >= EC_DELEGATE_ALWAYS,
                              .refused = r->refused};
  d->init = (ec_backend_init){.method = m->name, .payload = "", .program = m->program,
                              .instance = m};
  if (!r->output_count || ec_delegate_options(m, d, err) != EC_OK) return EC_OK;
  ec_host_call call = ec_host_call_of(m, &c->work, err);
  const ec_status status = (ec_status)d->backend->init_run(d->backend, &ec_host_table, &call,
                                                           &d->init, &run, &d->handle);
  d->ready = status == EC_OK;
  if (status == EC_MEMORY_ALLOCATION_FAILED) return ec_fail_in(err, status, "%s", d->backend->id);
  return EC_OK;
}

/* Leaves the calls that the backend refused to their kernels. Sets `any` if there are some. */
static ec_status leave_refused(ec_run_analysis *c, const ec_delegate_run *r, bool *any,
                               ec_error *err) {
  char reason[EC_ERROR_SIZE];
  size_t call = 0;
  *any = false;
  snprintf(reason, sizeof reason, "%s", err ? err->message : "refused");
  for (size_t i = r->first; i < r->end; i++) {
    if (ec_is_folded(c->m, &c->instrs[i]) || !r->refused[call++]) continue;
    ec_error_clear(err);
    c->wanted[i] = false;
    *any = true;
    EC_TRY(note_undelegated(c->m, c->instrs[i].op->name, reason, err));
  }
  return EC_OK;
}

/* Hands one run to the backend; sets `again` if runs have to be built without some of
 * its calls. */
static ec_status delegate_run(ec_run_analysis *c, const ec_backend *backend,
                              const ec_delegate_run *r, bool *again, ec_error *err) {
  ec_method *m = c->m;
  ec_delegated_run *run = &m->delegated[m->delegated_count];
  run->delegate.backend = backend;
  EC_TRY(make_call(c, r, &run->call, err));
  EC_TRY(compile_run(c, r, &run->delegate, err));
  if (!run->delegate.ready && c->refusals < MAX_REFUSALS)
    EC_TRY(leave_refused(c, r, again, err));
  c->refusals += *again;
  if (*again) return EC_OK;
  if (!run->delegate.ready) return note_refused(c, r, err);
  ec_error_clear(err);
  m->delegated_count++;
  run->first = r->first;
  run->end = r->end;
  run->calls = r->call_count;
  run->call.delegate = &run->delegate;
  const ec_step step = {.kind = EC_STEP_Delegated, .pass = EC_PASS_delegate,
                        .first = (uint32_t)r->first, .count = (uint32_t)(r->end - r->first),
                        .run = &run->call};
  return ec_plan_replace(m, step, true, err);
}

/* ---- whole methods --------------------------------------------------------------------------- */

/* Asks for each call whether it can be part of a run. */
static ec_status ask_backend(ec_run_analysis *c, const ec_backend *backend, size_t at,
                             ec_error *err) {
  ec_backend_kernel_call call;
  const ec_instr *in = &c->instrs[at];
  if (!in->op || ec_is_folded(c->m, in)) return EC_OK;
  if (is_fused(c->m, at)) return note_undelegated(c->m, in->op->name, fused, err);
  const char *reason;
  EC_TRY(ec_view_call(c, in, &call, &reason, err));
  if (!reason) reason = backend->refuse_call(backend, &call);
  c->wanted[at] = !reason;
  return reason ? note_undelegated(c->m, in->op->name, reason, err) : EC_OK;
}

/* True for a run of copies whose operands and results share memory: they move nothing. */
static bool moves_nothing(const ec_run_analysis *c, const ec_delegate_run *r) {
  bool nothing = c->m->options.delegation == EC_DELEGATE_WHERE_IT_PAYS;
  for (size_t i = r->first; i < r->end; i++)
    nothing = nothing && (ec_is_folded(c->m, &c->instrs[i]) || (c->merged && c->merged[i]));
  return nothing;
}

static ec_status leave_copies(const ec_run_analysis *c, const ec_delegate_run *r, ec_error *err) {
  for (size_t i = r->first; i < r->end; i++)
    if (!ec_is_folded(c->m, &c->instrs[i]))
      EC_TRY(note_undelegated(c->m, c->instrs[i].op->name, "a copy that shares memory", err));
  return EC_OK;
}

/* Hands runs of the chain to the backend. */
static ec_status delegate_runs(ec_run_analysis *c, const ec_backend *backend, ec_error *err) {
  const bool each = c->m->options.delegation == EC_DELEGATE_EACH;
  size_t i = 0, end = 0; /* wanted from i to end */
  while (i < c->count && c->room) {
    ec_delegate_run r;
    bool again = false;
    if (ec_is_folded(c->m, &c->instrs[i]) || !c->wanted[i]) {
      i++;
      continue;
    }
    if (end <= i) end = i + 1;
    while (!each && end < c->count &&
           (ec_is_folded(c->m, &c->instrs[end]) || c->wanted[end]))
      end++;
    EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP, err));
    EC_TRY(ec_build_run(c, i, end, &r, err));
    if (r.call_count && moves_nothing(c, &r)) EC_TRY(leave_copies(c, &r, err));
    else if (r.call_count) EC_TRY(delegate_run(c, backend, &r, &again, err));
    else EC_TRY(note_undelegated(c->m, c->instrs[i].op->name, "memory of other tensors", err));
    if (again) end = i; /* found again */
    else i = r.end > i ? r.end : i + 1;
  }
  return EC_OK;
}

static ec_status find_runs(const ec_pass_context *p, ec_run_analysis *c,
                             const ec_backend *backend, ec_error *err) {
  ec_method *m = p->m;
  size_t runs = 0;
  EC_TRY(ec_analyse_runs(p, c, err));
  EC_TRY(ec_arena_array(p->work, c->count, 1, "an analysis", &c->wanted, err));
  for (size_t i = 0; i < c->count; i++) {
    EC_TRY(ask_backend(c, backend, i, err));
    runs += c->wanted[i];
  }
  EC_TRY(ec_arena_array(&m->arena, runs, sizeof *m->delegated, "delegates", &m->delegated, err));
  return delegate_runs(c, backend, err);
}

/* Returns the backend that takes calls at load and was registered last. */
static const ec_backend *find_backend(void) {
  for (size_t i = ec_backend_count(); i-- > 0;) {
    const ec_backend *b = ec_backend_at(i);
    const bool takes_calls = EC_BACKEND_MEMBER(b, init_run) && b->refuse_call;
    if (takes_calls && (!b->is_available || b->is_available(b))) return b;
  }
  return NULL;
}

/* True if the tensors of the method's kernel calls have few elements. */
static bool has_little_work(const ec_method *m) {
  int64_t elements = 0;
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    for (size_t k = 0; in->op && k < in->count && elements < MIN_ELEMENTS; k++)
      if (in->args[k]->kind == EC_KIND_TENSOR) elements += in->args[k]->as.tensor->numel;
  }
  return m->options.delegation == EC_DELEGATE_WHERE_IT_PAYS && elements < MIN_ELEMENTS;
}

ec_status ec_check_delegating_backends(const ec_method *m, ec_error *err) {
  const ec_method_options *o = &m->options;
  if (EC_IS_SMALL || !o->backends_unknown || o->delegation == EC_DELEGATE_NEVER ||
      o->reference_kernels || has_little_work(m))
    return EC_OK;
  return ec_fail(err, EC_NOT_FOUND, "backends that take calls at load are not registered yet");
}

/* Returns why no call of the method can be delegated; NULL: some may be. */
static const char *refuse_method(const ec_method *m, const ec_backend *backend) {
  if (m->options.reference_kernels) return "plain kernels are asked for";
  if (has_little_work(m)) return "too little work for a delegate";
  if (!backend) return "no backend that takes calls at load is registered";
  if (m->has_jumps) return "the method has jumps";
  if (m->chain_count != 1) return "the method has several chains";
  return ec_can_compare(m->tensor_count, m->tensor_count) ? NULL : "the method is too large";
}

ec_status ec_delegate_calls(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  ec_run_analysis c = {.m = m};
  const ec_backend *backend = find_backend();
  if (m->options.delegation == EC_DELEGATE_NEVER) return EC_OK;
  const char *reason = refuse_method(m, backend);
  if (reason) return note_all(m, reason, err);
  ec_status status = find_runs(p, &c, backend, err);
  ec_arena_deinit(&c.work);
  return status;
}
