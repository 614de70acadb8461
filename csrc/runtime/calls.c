/* Calls of kernels and delegates. The file is not read, and the checks of loading are not repeated:
 * only facts of the current call are checked, memory and shapes. */
#include "runtime/calls.h"

#include <stdatomic.h>

#include "runtime/arg.h"
#include "runtime/host_call.h"
#include "runtime/passes/record.h"

/* ---- kernel calls ------------------------------------------------------------------------ */

static const char *find_arg_name(const ec_instr *in, const ec_value *v) {
  for (size_t i = 0; i < in->op->nargs; i++)
    if (in->args[i] == v) return in->op->args[i].name;
  return "an item of a list";
}

static ec_status check_readable(ec_method *m, const ec_instr *in, const ec_value *v,
                                ec_error *err) {
  const ec_tensor *t = v->as.tensor;
  m->elements += (uint64_t)t->numel;
  if (t->data || !t->numel) return EC_OK;
  return ec_fail(err, EC_INVALID_STATE, "argument '%s' has no data yet", find_arg_name(in, v));
}

static ec_status check_writable(ec_method *m, const ec_instr *in, const ec_value *v,
                                ec_error *err) {
  const ec_tensor *t = v->as.tensor;
  m->elements += (uint64_t)t->numel;
  if (!(t->flags & EC_TENSOR_READONLY)) return EC_OK;
  return ec_fail(err, EC_INVALID_PROGRAM, "argument '%s' is written, but it is a constant",
                 find_arg_name(in, v));
}

typedef ec_status (*value_check)(ec_method *m, const ec_instr *in, const ec_value *v,
                                 ec_error *err);

/* Checks tensors, and those in lists. Always inlined, with a constant `check`. */
static inline ec_status check_values(ec_method *m, const ec_instr *in, ec_value *const *values,
                                     size_t count, value_check check, ec_error *err) {
  for (size_t i = 0; i < count; i++) {
    const ec_value *v = values[i];
    if (v->kind == EC_KIND_TENSOR) {
      EC_TRY(check(m, in, v, err));
      continue;
    }
    for (uint32_t k = 0; k < v->count; k++)
      if (v->as.items[k]->kind == EC_KIND_TENSOR) EC_TRY(check(m, in, v->as.items[k], err));
  }
  return EC_OK;
}

static ec_status check_memory(ec_method *m, const ec_instr *in, ec_error *err) {
  EC_TRY(check_values(m, in, in->reads, in->read_count, check_readable, err));
  return check_values(m, in, in->writes, in->write_count, check_writable, err);
}

static void resize_to_bound(const ec_method *m, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR_LIST)
    for (uint32_t i = 0; i < v->count; i++) resize_to_bound(m, v->as.items[i]);
  if (v->kind != EC_KIND_TENSOR || v->as.tensor->dynamism != EC_DYNAMIC_BOUND) return;
  ec_tensor *t = v->as.tensor;
  const ec_placement *p = ec_placement_of(m, t);
  if (p->sizes) (void)ec_tensor_set_sizes(t, t->rank, p->sizes, NULL);
}

/* Resizes outputs of bounded shape to their bounds before a registered operator runs. Its code may
 * use the memory of its outputs, which would otherwise have the size of the last call. */
static void resize_outs_to_bounds(const ec_method *m, const ec_instr *in) {
  for (size_t i = 0; i < in->op->nargs; i++)
    if (in->op->args[i].is_out) resize_to_bound(m, in->args[i]);
}

static bool keeps_running; /* set before any call */
static _Atomic(const char *) running; /* the operator or backend of the last call */

void ec_keep_running(void) { keeps_running = true; }

const char *ec_running(void) { return atomic_load_explicit(&running, memory_order_relaxed); }

/* Threads of all methods write `running`: only where somebody reads it. */
static inline void set_running(const char *name) {
  if (keeps_running) atomic_store_explicit(&running, name, memory_order_relaxed);
}

ec_status ec_run_kernel(ec_method *m, const ec_step *step, ec_joined *joined, ec_error *err) {
  const ec_instr *in = step->run;
  ec_record *record = joined ? NULL : step->record;
  EC_TRY(check_memory(m, in, err));
  if (in->op->custom) resize_outs_to_bounds(m, in);
  const bool reference = m->options.reference_kernels;
  ec_call call = {in->args, in->op, &m->scratch, err, reference, m, &m->random,
                  reference ? NULL : m->threads, step->kept, record,
                  step->zero_rows, joined, &m->pages, m->options.kv_cache};
  set_running(in->op->name);
  ec_status status = in->op->fn(&call);
  set_running(NULL);
  ec_arena_reset(&m->scratch);
  if (EC_IS_SMALL && ec_dropped_loop_ran()) /* its result may have failed a check, too */
    status = ec_fail(err, EC_NOT_SUPPORTED,
                     "it computes in a dtype that this library was built without");
  if (!EC_IS_SMALL && record) ec_finish_record(step, status, m->elements);
  return status;
}

/* ---- delegate calls ---------------------------------------------------------------------- */

ec_status ec_run_delegate(ec_method *m, const ec_instr *in, ec_error *err) {
  for (size_t i = 0; i < in->count; i++) {
    ec_arg_view(in->args[i], &in->views[i]);
    if (in->args[i]->kind == EC_KIND_TENSOR)
      m->elements += (uint64_t)in->args[i]->as.tensor->numel;
    if (in->views[i].kind == EC_BACKEND_TENSOR && !in->views[i].as.tensor.data &&
        in->views[i].as.tensor.nbytes)
      return ec_fail(err, EC_INVALID_STATE, "argument %zu of the delegate has no data yet", i);
  }
  const ec_backend *backend = in->delegate->backend;
  in->delegate->settled = NULL;
  ec_host_call call = ec_host_call_of(m, &m->scratch, err);
  call.instr = in;
  set_running(backend->id);
  ec_status status = (ec_status)backend->execute(backend, &ec_host_table, &call,
                                                 in->delegate->handle, in->views, in->count);
  set_running(NULL);
  ec_arena_reset(&m->scratch);
  if (status != EC_OK) return ec_fail_in(err, status, "%s", backend->id);
  in->delegate->elements = m->elements;
  in->delegate->settled = ec_trace_of(m) ? NULL : in;
  return EC_OK;
}

bool ec_is_declined(ec_status status) {
  return status == EC_NOT_SUPPORTED || status == EC_INVALID_ARGUMENT || status == EC_INVALID_STATE;
}
