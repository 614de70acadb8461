/* The steps that passes make. */
#include "runtime/steps.h"

#include "runtime/calls.h"
#include "runtime/host_call.h"
#include "runtime/memory/placement.h"
#include "runtime/passes/attend_shapes.h"

/* Leaves a call to the step's fallback: nothing was done. */
static ec_status decline(const ec_step *step, size_t *next, ec_error *err) {
  ec_error_clear(err);
  *next = step->first;
  return EC_OK;
}

ec_status ec_execute_nothing(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  (void)m;
  (void)step;
  (void)next;
  (void)err;
  return EC_OK;
}

/* Runs the record of the step at an instruction, if it has one: a call after another recorded one,
 * in its chain, without a turn of the executor, which takes longer than the loops of a small
 * call. */
static bool run_next_record(ec_method *m, size_t at) {
  if (at >= m->instr_count || m->instrs[at].number == 0) return false;
  const ec_step *step = m->plan.steps[at];
  if (step->kind == EC_STEP_Constant) return true;
  if (step->kind != EC_STEP_Recorded || !ec_record_run(step->record)) return false;
  if (m->written) ec_mark_written(m, step->run);
  m->elements += step->record->elements;
  return true;
}

ec_status ec_execute_recorded(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  enum { MAX_CALLS = 64 }; /* between two checks of the budget */
  if (!ec_record_run(step->record)) return decline(step, next, err);
  m->elements += step->record->elements;
  for (size_t i = 1; i < MAX_CALLS && run_next_record(m, *next); i++) {
    m->elements += EC_STEP;
    *next += m->plan.steps[*next]->count;
  }
  return EC_OK;
}

/* Repeats the call of a delegate whose last execute had the same arguments. */
ec_status ec_execute_repeated(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  ec_delegate *d = step->run->delegate;
  if (d->settled != step->run) return decline(step, next, err);
  ec_host_call call = ec_host_call_of(m, &m->scratch, err);
  call.instr = step->run;
  const ec_status status =
      (ec_status)d->backend->repeat(d->backend, &ec_host_table, &call, d->handle);
  if (status == EC_NOT_SUPPORTED) return decline(step, next, err);
  m->elements += d->elements;
  if (status == EC_OK) return EC_OK;
  d->settled = NULL;
  return ec_fail_in(err, status, "%s", d->backend->id);
}

/* Runs the calls from this one on whose loops can be joined. The next one, which cannot, has done
 * nothing but checks: it runs again by itself, and reports its errors. */
ec_status ec_execute_joined(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  ec_joined *joined = m->joined;
  size_t n = 0;
  for (; n < step->count; n++) {
    const ec_step *call = m->plan.steps[step->first + n];
    if (call->kind == EC_STEP_Constant) continue;
    if (call->kind != EC_STEP_Joined) break;
    const size_t before = joined->count;
    joined->place = n;
    joined->kind = (ec_op_loop)call->run->op->loop;
    joined->readers = call->readers ? n + call->readers : 0;
    const ec_status status = ec_run_kernel(m, call, joined, err);
    if (status != EC_OK || joined->count == before) break;
  }
  ec_error_clear(err);
  ec_joined_run(joined, n, m->threads);
  *next = step->first + n;
  return EC_OK;
}

ec_status ec_execute_attention(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  if (!ec_attention_fits(m, step)) return decline(step, next, err);
  return ec_run_kernel(m, step, NULL, err);
}

ec_status ec_execute_delegated(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  const ec_status status = ec_run_delegate(m, step->run, err);
  return ec_is_declined(status) ? decline(step, next, err) : status;
}
