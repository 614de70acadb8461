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
#include "runtime/host_call.h"
#include "runtime/load/options.h"

enum {
  MOST_REASONS = 64,
  MOST_REFUSALS = 100, /* of single calls of a run: each makes it be built again */
  LEAST_ELEMENTS = 4000 /* of a method that may have a call worth a delegate */
};

/* ---- what is not claimed --------------------------------------------------------------------- */

/* Notes why a call is left to its kernel: one row for each operator and reason. */
static ec_status note_unclaimed(ec_method *m, const char *op, const char *reason, ec_error *err) {
  for (size_t i = 0; i < m->unclaimed_count; i++) {
    ec_unclaimed *row = &m->unclaimed[i];
    if (row->op != op || strcmp(row->reason, reason) != 0) continue;
    row->calls++;
    return EC_OK;
  }
  if (!m->unclaimed)
    EC_TRY(ec_arena_array(&m->arena, MOST_REASONS, sizeof *m->unclaimed, "reasons", &m->unclaimed,
                          err));
  if (m->unclaimed_count == MOST_REASONS) return EC_OK;
  const size_t size = strlen(reason) + 1;
  char *copy;
  EC_TRY(ec_arena_array(&m->arena, size, 1, "a reason", &copy, err));
  memcpy(copy, reason, size);
  m->unclaimed[m->unclaimed_count++] = (ec_unclaimed){op, copy, 1};
  return EC_OK;
}

static const char fused[] = "fused with other calls";

static bool is_fused(const ec_instr *in) { return in->fused || in->attended; }

/* Notes one reason for all kernel calls of a method. */
static ec_status note_all(ec_method *m, const char *reason, ec_error *err) {
  for (size_t i = 0; i < m->instr_count; i++)
    if (m->instrs[i].op && !m->instrs[i].folded)
      EC_TRY(note_unclaimed(m, m->instrs[i].op->name,
                            is_fused(&m->instrs[i]) ? fused : reason, err));
  return EC_OK;
}

/* Notes the backend's message for the calls of a run. */
static ec_status note_refused(const ec_claim_context *c, const ec_claim_run *r, ec_error *err) {
  char reason[EC_ERROR_SIZE] = "their results are not read";
  if (r->output_count) snprintf(reason, sizeof reason, "%s", err ? err->message : "refused");
  ec_error_clear(err);
  for (size_t i = r->first; i < r->end; i++)
    if (!c->instrs[i].folded)
      EC_TRY(note_unclaimed(c->m, c->instrs[i].op->name, reason, err));
  return EC_OK;
}

/* ---- one run --------------------------------------------------------------------------------- */

static bool is_resizable(const ec_claim_run *r, size_t i) {
  return r->slots[i]->as.tensor->dynamism != EC_STATIC;
}

/* Makes the instruction that replaces the run, apart from its delegate. */
static ec_status make_call(ec_claim_context *c, const ec_claim_run *r, ec_instr *call,
                           ec_error *err) {
  const size_t count = r->input_count + r->output_count;
  ec_arena *arena = &c->m->arena;
  *call = (ec_instr){.kind = EC_INSTR_DelegateCall,
                     .number = c->instrs[r->first].number,
                     .count = count,
                     .destination = r->end,
                     .outputs_from = r->input_count};
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
static ec_status compile_run(ec_claim_context *c, const ec_claim_run *r, ec_delegate *d,
                             ec_error *err) {
  ec_method *m = c->m;
  const ec_backend_run run = {.struct_size = sizeof run,
                              .calls = r->calls,
                              .call_count = r->call_count,
                              .inputs = r->values,
                              .input_count = r->input_count,
                              .outputs = r->values + r->input_count,
                              .output_count = r->output_count,
                              .value_count = r->value_count,
                              .always = m->options.claiming >= EC_CLAIM_ALWAYS,
                              .refused = r->refused};
  d->init = (ec_backend_init){.method = m->name, .payload = "", .program = m->program,
                              .instance = m};
  if (!r->output_count || ec_delegate_options(m, d, err) != EC_OK) return EC_OK;
  ec_host_call call = ec_host_call_of(m, &c->work, err);
  const ec_status status = (ec_status)d->backend->claim(d->backend, &ec_host_table, &call, &d->init,
                                                        &run, &d->handle);
  d->ready = status == EC_OK;
  if (status == EC_MEMORY_ALLOCATION_FAILED) return ec_fail_in(err, status, "%s", d->backend->id);
  return EC_OK;
}

/* Leaves the calls that the backend refused to their kernels. Sets `any` if there are some. */
static ec_status leave_refused(ec_claim_context *c, const ec_claim_run *r, bool *any,
                               ec_error *err) {
  char reason[EC_ERROR_SIZE];
  size_t call = 0;
  *any = false;
  snprintf(reason, sizeof reason, "%s", err ? err->message : "refused");
  for (size_t i = r->first; i < r->end; i++) {
    if (c->instrs[i].folded || !r->refused[call++]) continue;
    ec_error_clear(err);
    c->wanted[i] = false;
    *any = true;
    EC_TRY(note_unclaimed(c->m, c->instrs[i].op->name, reason, err));
  }
  return EC_OK;
}

/* Claims one run, if the backend takes it; sets `again` if runs have to be built without some of
 * its calls. */
static ec_status claim_run(ec_claim_context *c, const ec_backend *backend, const ec_claim_run *r,
                           bool *again, ec_error *err) {
  ec_method *m = c->m;
  ec_claim *claim = &m->claims[m->claim_count];
  claim->delegate.backend = backend;
  EC_TRY(make_call(c, r, &claim->call, err));
  EC_TRY(compile_run(c, r, &claim->delegate, err));
  if (!claim->delegate.ready && c->refusals < MOST_REFUSALS)
    EC_TRY(leave_refused(c, r, again, err));
  c->refusals += *again;
  if (*again) return EC_OK;
  if (!claim->delegate.ready) return note_refused(c, r, err);
  ec_error_clear(err);
  m->claim_count++;
  claim->first = r->first;
  claim->calls = r->call_count;
  claim->call.delegate = &claim->delegate;
  for (size_t i = r->first; i < r->end; i++) c->instrs[i].claimed = !c->instrs[i].folded;
  c->instrs[r->first].claim = &claim->call;
  return EC_OK;
}

/* ---- whole methods --------------------------------------------------------------------------- */

/* Asks for each call whether it can be part of a run. */
static ec_status ask_backend(ec_claim_context *c, const ec_backend *backend, size_t at,
                             ec_error *err) {
  ec_backend_kernel_call call;
  const ec_instr *in = &c->instrs[at];
  if (!in->op || in->folded) return EC_OK;
  if (is_fused(in)) return note_unclaimed(c->m, in->op->name, fused, err);
  const char *reason;
  EC_TRY(ec_claim_view(c, in, &call, &reason, err));
  if (!reason) reason = backend->can_claim(backend, &call);
  c->wanted[at] = !reason;
  return reason ? note_unclaimed(c->m, in->op->name, reason, err) : EC_OK;
}

/* True for a run of copies whose operands and results share memory: they move nothing. */
static bool moves_nothing(const ec_claim_context *c, const ec_claim_run *r) {
  bool nothing = c->m->options.claiming == EC_CLAIM_WHERE_IT_PAYS;
  for (size_t i = r->first; i < r->end; i++)
    nothing = nothing && (c->instrs[i].folded || c->instrs[i].merged);
  return nothing;
}

static ec_status leave_copies(const ec_claim_context *c, const ec_claim_run *r, ec_error *err) {
  for (size_t i = r->first; i < r->end; i++)
    if (!c->instrs[i].folded)
      EC_TRY(note_unclaimed(c->m, c->instrs[i].op->name, "a copy that shares memory", err));
  return EC_OK;
}

/* Claims the runs of a chain. */
static ec_status claim_runs(ec_claim_context *c, const ec_backend *backend, ec_error *err) {
  const bool each = c->m->options.claiming == EC_CLAIM_EACH;
  size_t i = 0, end = 0; /* wanted from i to end */
  while (i < c->count && c->room) {
    ec_claim_run r;
    bool again = false;
    if (c->instrs[i].folded || !c->wanted[i]) {
      i++;
      continue;
    }
    if (end <= i) end = i + 1;
    while (!each && end < c->count && (c->instrs[end].folded || c->wanted[end])) end++;
    EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP, err));
    EC_TRY(ec_claim_run_build(c, i, end, &r, err));
    if (r.call_count && moves_nothing(c, &r)) EC_TRY(leave_copies(c, &r, err));
    else if (r.call_count) EC_TRY(claim_run(c, backend, &r, &again, err));
    else EC_TRY(note_unclaimed(c->m, c->instrs[i].op->name, "memory of other tensors", err));
    if (again) end = i; /* found again */
    else i = r.end > i ? r.end : i + 1;
  }
  return EC_OK;
}

static ec_status claim_calls(ec_claim_context *c, const ec_backend *backend, ec_error *err) {
  ec_method *m = c->m;
  size_t runs = 0;
  EC_TRY(ec_claim_context_init(m, c, err));
  EC_TRY(ec_arena_array(&m->scratch, c->count, 1, "an analysis", &c->wanted, err));
  for (size_t i = 0; i < c->count; i++) {
    EC_TRY(ask_backend(c, backend, i, err));
    runs += c->wanted[i];
  }
  EC_TRY(ec_arena_array(&m->arena, runs, sizeof *m->claims, "claims", &m->claims, err));
  return claim_runs(c, backend, err);
}

/* Returns the backend with claims that was registered last. */
static const ec_backend *find_backend(void) {
  for (size_t i = ec_backend_count(); i-- > 0;) {
    const ec_backend *b = ec_backend_at(i);
    if (EC_BACKEND_MEMBER(b, claim) && b->can_claim && (!b->is_available || b->is_available(b)))
      return b;
  }
  return NULL;
}

/* True if the tensors of the method's kernel calls have few elements. */
static bool has_little_work(const ec_method *m) {
  int64_t elements = 0;
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    for (size_t k = 0; in->op && k < in->count && elements < LEAST_ELEMENTS; k++)
      if (in->args[k]->kind == EC_KIND_TENSOR) elements += in->args[k]->as.tensor->numel;
  }
  return m->options.claiming == EC_CLAIM_WHERE_IT_PAYS && elements < LEAST_ELEMENTS;
}

ec_status ec_claim_check_backends(const ec_method *m, ec_error *err) {
  const ec_method_options *o = &m->options;
  if (!o->backends_unknown || o->claiming == EC_CLAIM_NEVER || o->reference_kernels ||
      has_little_work(m))
    return EC_OK;
  return ec_fail(err, EC_NOT_FOUND, "backends with claims are not registered yet");
}

/* Returns why no call of the method can be claimed; NULL: some may be. */
static const char *refuse_method(const ec_method *m, const ec_backend *backend) {
  if (m->options.reference_kernels) return "plain kernels are asked for";
  if (has_little_work(m)) return "too little work for a delegate";
  if (!backend) return "no backend with claims is registered";
  if (m->has_jumps) return "the method has jumps";
  if (m->chain_count != 1) return "the method has several chains";
  return ec_can_compare(m->tensor_count, m->tensor_count) ? NULL : "the method is too large";
}

ec_status ec_claim_calls(ec_method *m, ec_error *err) {
  ec_claim_context c = {.m = m};
  const ec_backend *backend = find_backend();
  if (m->options.claiming == EC_CLAIM_NEVER) return EC_OK;
  const char *reason = refuse_method(m, backend);
  if (reason) return note_all(m, reason, err);
  ec_status status = claim_calls(&c, backend, err);
  ec_arena_deinit(&c.work);
  ec_arena_reset(&m->scratch);
  return status;
}
