/* The executor: a loop over native instructions. It never reads the file and does not repeat the
 * checks of loading. It checks only facts of the current call: memory and shapes. */
#include "runtime/exec.h"

#include <inttypes.h>
#include <string.h>

#include "core/alloc.h"
#include "runtime/arg.h"
#include "runtime/passes/attend_shapes.h"
#include "runtime/host_call.h"
#include "runtime/memory/placement.h"
#include "runtime/passes/record.h"
#include "runtime/trace.h"

/* ---- instructions ------------------------------------------------------------------------ */

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

/* Runs a kernel; with `joined` it leaves its loop there, if it can. */
static ec_status run_kernel(ec_method *m, const ec_instr *in, ec_record *record, ec_joined *joined,
                            ec_error *err) {
  EC_TRY(check_memory(m, in, err));
  if (in->op->custom) resize_outs_to_bounds(m, in);
  const bool reference = m->options.reference_kernels;
  ec_call call = {in->args, in->op, &m->scratch, err, reference, m, &m->random,
                  reference ? NULL : m->threads, in->kept, record,
                  in->zero_rows, joined, &m->pages};
  ec_status status = in->op->fn(&call);
  ec_arena_reset(&m->scratch);
  return status;
}

ec_status ec_execute_kernel(ec_method *m, const ec_instr *in, ec_error *err) {
  const ec_status status = run_kernel(m, in, in->record, NULL, err);
  if (!EC_IS_SMALL && in->record) ec_finish_record(in, status, m->elements);
  return status;
}

/* Runs the calls from `in` on whose loops can be joined. Returns their number. The next one, which
 * cannot, has done nothing but checks: it runs again on its own, and reports its errors. */
static size_t execute_joined(ec_method *m, const ec_instr *in, ec_error *err) {
  ec_joined *joined = m->joined;
  size_t n = 0;
  for (; n < in->joined; n++) {
    if (in[n].folded) continue;
    if (n && (in[n].claimed || in[n].claim)) break;
    const size_t before = joined->count;
    joined->place = n;
    joined->kind = (ec_joined_kind)in[n].joined_kind;
    joined->readers = in[n].readers ? n + in[n].readers : 0;
    const ec_status status = run_kernel(m, &in[n], NULL, joined, err);
    if (status != EC_OK || joined->count == before) break;
  }
  ec_error_clear(err);
  ec_joined_run(joined, n, m->threads);
  return n;
}

/* Repeats the call of a delegate whose last execute had the same arguments. Returns false if it has
 * to be executed. */
static bool repeat_delegate_call(ec_method *m, const ec_instr *in, ec_status *status,
                                 ec_error *err) {
  ec_delegate *d = in->delegate;
  if (EC_IS_SMALL || !in->repeats || d->settled != in || ec_trace_of(m)) return false;
  ec_host_call call = ec_host_call_of(m, &m->scratch, err);
  call.instr = in;
  *status = (ec_status)d->backend->repeat(d->backend, &ec_host_table, &call, d->handle);
  if (*status == EC_NOT_SUPPORTED) return false;
  m->elements += d->elements;
  if (*status == EC_OK) return true;
  d->settled = NULL;
  *status = ec_fail_in(err, *status, "%s", d->backend->id);
  return true;
}

static ec_status execute_delegate_call(ec_method *m, const ec_instr *in, size_t *next,
                                       ec_error *err) {
  ec_status repeated;
  if (repeat_delegate_call(m, in, &repeated, err)) return repeated;
  (void)next;
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
  ec_status status = (ec_status)backend->execute(backend, &ec_host_table, &call,
                                                 in->delegate->handle, in->views, in->count);
  ec_arena_reset(&m->scratch);
  if (status != EC_OK) return ec_fail_in(err, status, "%s", backend->id);
  in->delegate->elements = m->elements;
  in->delegate->settled = ec_trace_of(m) ? NULL : in;
  return EC_OK;
}

/* True for the status of a claim that cannot compute with the values of this call. It has changed
 * no input. */
static bool is_declined(ec_status status) {
  return status == EC_NOT_SUPPORTED || status == EC_INVALID_ARGUMENT || status == EC_INVALID_STATE;
}

/* Computes the results of a traced call by its own claim, if it has one. Results that the claim
 * does not write, because nothing reads them, are the kernel's. */
static ec_status execute_kernel_call(ec_method *m, const ec_instr *in, size_t *next,
                                     ec_error *err) {
  if (!EC_IS_SMALL && in->joined > 1 && !ec_trace_of(m)) {
    const size_t calls = execute_joined(m, in, err);
    if (calls) *next += calls - 1;
    if (calls) return EC_OK;
  }
  if (!EC_IS_SMALL && !ec_trace_of(m) && ec_record_run(in->record)) {
    m->elements += in->record->elements;
    return EC_OK;
  }
  EC_TRY(ec_execute_kernel(m, in, err));
  if (!ec_trace_of(m) || !in->claim || m->options.claiming != EC_CLAIM_EACH) return EC_OK;
  const ec_status status = execute_delegate_call(m, in->claim, next, err);
  if (!is_declined(status)) return status;
  ec_error_clear(err);
  return ec_execute_kernel(m, in, err);
}

/* The reference puts the source into the target's slot: one tensor with two names. An instruction
 * may then resize it under one name while it reads the other, and the planner may give its memory
 * to the next branch. Here a slot keeps its tensor. A target with memory receives a copy; a target
 * without (a placeholder) points to the source's data, as a view does. */
static ec_status execute_move_call(ec_method *m, const ec_instr *in, size_t *next, ec_error *err) {
  (void)next;
  (void)m;
  ec_value *from = in->args[0], *to = in->args[1];
  if (from->kind != EC_KIND_TENSOR) {
    *to = *from;
    return EC_OK;
  }
  ec_tensor *source = from->as.tensor, *target = to->as.tensor;
  if (source == target) return EC_OK;
  if (!source->data && source->numel)
    return ec_fail(err, EC_INVALID_STATE, "the tensor that is moved has no data yet");
  if (in->aliases) {
    EC_TRY(ec_tensor_set_sizes(target, source->rank, source->sizes, err));
    target->data = source->data;
    target->capacity = source->capacity;
    target->flags = source->flags; /* an alias of a constant is constant, too */
    return EC_OK;
  }
  if (target->flags & EC_TENSOR_READONLY)
    return ec_fail(err, EC_INVALID_PROGRAM, "a tensor is moved into a constant");
  EC_TRY(ec_tensor_resize(target, source->rank, source->sizes, err));
  if (source->numel) memmove(target->data, source->data, ec_tensor_nbytes(source));
  return EC_OK;
}

static ec_status execute_jump_false_call(ec_method *m, const ec_instr *in, size_t *next,
                                         ec_error *err) {
  (void)m;
  const ec_value *cond = in->args[0];
  bool all = true;
  if (cond->kind == EC_KIND_TENSOR) {
    const ec_tensor *t = cond->as.tensor;
    if (!t->data && t->numel)
      return ec_fail(err, EC_INVALID_STATE, "the condition has no data yet");
    for (int64_t i = 0; i < t->numel; i++) all = all && ((const uint8_t *)t->data)[i];
  } else {
    all = ec_value_bool(cond);
  }
  if (!all) *next = in->destination;
  return EC_OK;
}

static ec_status execute_free_call(ec_method *m, const ec_instr *in, size_t *next, ec_error *err) {
  (void)m;
  (void)next;
  (void)err;
  ec_tensor_drop_data(in->args[0]->as.tensor);
  return EC_OK;
}

static const ec_handler handlers[] = {
#define EC_INSTR(name, handler) [EC_INSTR_##name] = handler,
#include "runtime/instr.def"
#undef EC_INSTR
};

/* ---- chains ------------------------------------------------------------------------------ */

/* The node of a payload that an instruction computes: helpers come before the one with a name. */
static const ec_backend_node *find_node(const ec_method *m, size_t instruction) {
  for (size_t i = instruction; m->nodes && i < m->node_count; i++)
    if (m->nodes[i].name) return &m->nodes[i];
  return NULL;
}

static ec_status fail_in_instr(const ec_method *m, size_t chain, const ec_instr *in,
                               ec_status status, ec_error *err) {
  if (in->op) ec_fail_in(err, status, "%s", in->op->name);
  if (m->chain_count > 1) ec_fail_in(err, status, "chain %zu", chain);
  const ec_backend_node *node = find_node(m, in->number);
  if (node)
    return ec_fail_in(err, status, "method '%s', instruction %u of node %u (%.80s)", m->name,
                      in->number, (unsigned)node->debug_handle, node->name);
  return ec_fail_in(err, status, "method '%s', instruction %u", m->name, in->number);
}

/* Charges the cost of an instruction. External code is followed by a check of the clock, because it
 * may have taken any time. */
static ec_status charge_instr(ec_method *m, const ec_instr *in, ec_error *err) {
  ec_budget *budget = m->budget;
  const bool foreign = in->delegate || (in->op && in->op->custom);
  if (foreign) budget->pause = budget->work;
  return ec_budget_work(budget, EC_STEP + m->elements, err);
}

/* Returns what runs at an instruction; NULL: nothing. A claim of calls before `declined` has left
 * them to their kernels. Traced calls run all instructions. */
static const ec_instr *choose_instr(ec_method *m, const ec_chain *chain, size_t pc,
                                    size_t declined) {
  const ec_instr *in = &chain->instrs[pc];
  if (EC_IS_SMALL || ec_trace_of(m)) return in;
  if (in->attention && in->attention->parts && ec_attention_fits(m, in->attention))
    return in->attention;
  if (in->claim && pc >= declined) return in->claim;
  if (in->fusion) return in->fusion;
  return in->folded || in->fused || (in->claimed && pc >= declined) ? NULL : in;
}

static ec_status execute_chains(ec_method *m, ec_error *err) {
  for (size_t c = 0; c < m->chain_count; c++) {
    const ec_chain *chain = &m->chains[c];
    size_t declined = 0;
    for (size_t pc = 0; pc < chain->count;) {
      const ec_instr *in = choose_instr(m, chain, pc++, declined);
      if (m->budget->instructions-- == 0)
        return ec_fail_hint(err, EC_INVALID_PROGRAM, EC_HINT_MAX_STEPS,
                            "method '%s' ran %d instructions without an end: it loops for ever",
                            m->name, EC_MAX_INSTRUCTIONS);
      if (!in) continue;
      const ec_handler handler = handlers[in->kind];
      m->elements = 0;
      ec_status status = ec_trace_of(m) ? ec_traced_instr(m, c, in, handler, &pc, err)
                                        : handler(m, in, &pc, err);
      const bool is_claim = !EC_IS_SMALL && in->delegate && in != &chain->instrs[pc - 1];
      if (is_claim && is_declined(status)) {
        declined = in->destination;
        pc--;
        ec_error_clear(err);
        continue;
      }
      if (m->written) ec_mark_written(m, in);
      if (in->parts) pc = in->destination;
      if (status == EC_OK) status = charge_instr(m, in, err);
      if (status != EC_OK) return fail_in_instr(m, c, in, status, err);
    }
  }
  return EC_OK;
}

/* ---- inputs and outputs of a call -------------------------------------------------------- */

/* Allocates heap memory for a tensor without planned memory. It is kept for the next call. */
static ec_status allocate_staging(ec_tensor *t, size_t nbytes, void **staging, size_t *size,
                                  ec_error *err) {
  if (!*staging || *size < nbytes) {
    ec_free(*staging);
    *staging = ec_alloc_zeroed(nbytes);
    *size = *staging ? nbytes : 0;
    if (!*staging)
      return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for %zu bytes", nbytes);
  }
  t->data = *staging;
  t->capacity = *size;
  return EC_OK;
}

/* Copies any strided array: row by row if possible, else element by element. */
static void copy_strided(char *to, const int64_t *to_strides, const char *from,
                         const int64_t *from_strides, const int64_t *sizes, size_t rank,
                         size_t item) {
  if (rank == 0) {
    memcpy(to, from, item);
    return;
  }
  int64_t n = sizes[0], step = to_strides[0] * (int64_t)item;
  if (rank == 1 && step == (int64_t)item && from_strides[0] == (int64_t)item) {
    memcpy(to, from, (size_t)n * item);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    copy_strided(to + i * step, to_strides + 1, from + i * from_strides[0], from_strides + 1,
                 sizes + 1, rank - 1, item);
}

static void copy_input(const ec_input_slot *slot, ec_tensor *t) {
  const ec_array *a = &slot->array;
  if (t->numel)
    copy_strided(t->data, t->strides, a->data, slot->strides, t->sizes, t->rank,
                 ec_dtype_size(a->dtype));
}

static ec_status set_input_data(ec_method *m, ec_input_slot *slot, ec_error *err) {
  if (slot->value->kind != EC_KIND_TENSOR) return EC_OK;
  ec_tensor *t = slot->value->as.tensor;
  if (slot->binding == EC_BOUND_IN_PLACE) {
    t->data = slot->array.data;
    t->capacity = ec_tensor_nbytes(t);
    t->flags = EC_TENSOR_READONLY;
    return EC_OK;
  }
  EC_TRY(ec_tensor_set_sizes(t, t->rank, slot->sizes, err)); /* one value may be two inputs */
  if (ec_placement_of(m, t)->arena == 0 || ec_tensor_nbytes(t) > t->capacity)
    EC_TRY(allocate_staging(t, ec_tensor_nbytes(t), &slot->staging, &slot->staging_size, err));
  copy_input(slot, t);
  return EC_OK;
}

static ec_status set_output_data(ec_output_slot *slot, ec_error *err) {
  if (slot->value->kind != EC_KIND_TENSOR) return EC_OK;
  ec_tensor *t = slot->value->as.tensor;
  if (slot->bound && slot->direct) {
    t->data = slot->bound;
    t->capacity = ec_tensor_nbytes(t);
    return EC_OK;
  }
  if (!slot->needs_staging) return EC_OK;
  return allocate_staging(t, (size_t)t->numel_bound * ec_dtype_size(ec_tensor_dtype(t)),
                          &slot->staging, &slot->staging_size, err);
}

static ec_status copy_out_output(ec_method *m, size_t index, ec_error *err) {
  const ec_output_slot *slot = &m->outputs[index];
  if (slot->value->kind != EC_KIND_TENSOR) return EC_OK;
  const ec_tensor *t = slot->value->as.tensor;
  const bool skipped = slot->may_be_skipped && !m->written[t - m->tensors];
  if (t->numel && (!t->data || (EC_IS_SMALL && skipped)))
    return ec_fail(err, EC_INVALID_STATE, "method '%s' never computed output %zu", m->name, index);
  if (!EC_IS_SMALL && t->numel && skipped)
    return ec_fail(err, EC_INVALID_STATE,
                   "method '%s' did not compute output %zu: a jump skipped the instructions that "
                   "write it",
                   m->name, index);
  if (slot->bound && t->data != slot->bound && t->numel)
    memmove(slot->bound, t->data, ec_tensor_nbytes(t)); /* an attribute may be the bound memory */
  return EC_OK;
}

void ec_restore_placements(ec_method *m) {
  for (size_t i = 0; i < m->rebindable_count; i++) {
    ec_tensor *t = m->rebindable[i];
    const ec_placement *p = ec_placement_of(m, t);
    t->data = p->data;
    t->capacity = p->capacity;
    t->flags = p->flags;
    if (t->storage) ec_tensor_trim(t, false);
    if (t->dynamism == EC_DYNAMIC_UNBOUND && p->sizes && ec_tensor_nbytes(t) > t->capacity)
      (void)ec_tensor_set_sizes(t, t->rank, p->sizes, NULL);
  }
  if (m->first_values) memcpy(m->values, m->first_values, m->value_count * sizeof *m->values);
}

/* Bounds the growth of tensors without bounds in a call without a limit of the user: a file of 1 KB
 * could pad or repeat a tensor to gigabytes. Inputs and planned memory, which the user knows, raise
 * the bound. */
static void bound_growth(const ec_method *m) {
  enum { LEAST = 512 << 20, FOR_INPUTS = 16 };
  uint64_t bytes = 0;
  if (EC_IS_SMALL || m->budget->growth) return;
  for (size_t i = 0; i < m->input_count; i++)
    if (m->inputs[i].value->kind == EC_KIND_TENSOR)
      bytes += ec_tensor_nbytes(m->inputs[i].value->as.tensor) * FOR_INPUTS;
  for (size_t i = 1; i < m->planned_count; i++) bytes += m->planned_sizes[i];
  m->budget->growth = LEAST + bytes;
}

static ec_status execute_bound(ec_method *m, ec_error *err) {
  for (size_t i = 0; i < m->input_count; i++)
    if (m->inputs[i].binding == EC_UNBOUND_INPUT)
      return ec_fail(err, EC_INVALID_ARGUMENT, "method '%s': input %zu is not set", m->name, i);
  for (size_t i = 0; i < m->input_count; i++) EC_TRY(set_input_data(m, &m->inputs[i], err));
  for (size_t i = 0; i < m->output_count; i++) EC_TRY(set_output_data(&m->outputs[i], err));
  bound_growth(m);
  if (m->written) memset(m->written, 0, m->tensor_count * sizeof *m->written);
  EC_TRY(execute_chains(m, err));
  for (size_t i = 0; i < m->output_count; i++) EC_TRY(copy_out_output(m, i, err));
  return EC_OK;
}

static ec_status execute_call(ec_method *m, ec_error *err) {
  ec_error_clear(err);
  return ec_trace_of(m) ? ec_traced_call(m, execute_bound, err) : execute_bound(m, err);
}

void ec_method_budget(const ec_method *m, const ec_interrupt *interrupt, ec_budget *out) {
  ec_budget_init(out, m->options.max_steps,
                 m->options.max_bytes ? m->options.max_bytes : ec_machine_bytes() / 2, interrupt);
  if (!m->options.max_steps) out->instructions = EC_MAX_INSTRUCTIONS;
  if (!m->options.max_bytes) out->growth = 0;
}

ec_status ec_method_execute(ec_method *m, ec_error *err) {
  ec_budget own;
  m->budget = ec_budget_now();
  if (m->budget) return execute_call(m, err);
  ec_method_budget(m, NULL, &own);
  ec_budget_enter(&own);
  m->budget = &own;
  ec_status status = execute_call(m, err);
  ec_budget_leave(&own);
  return ec_budget_explain(&own, status, err);
}
