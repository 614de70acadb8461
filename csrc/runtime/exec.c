/* The executor: a loop over the steps of the plan. It never reads the file and does not repeat the
 * checks of loading. It checks only facts of the current call: memory and shapes. */
#include "runtime/exec.h"

#include <inttypes.h>
#include <string.h>

#include "core/alloc.h"
#include "runtime/calls.h"
#include "runtime/memory/placement.h"
#include "runtime/steps.h"
#include "runtime/trace.h"

/* ---- instructions ------------------------------------------------------------------------ */

static ec_status execute_delegate_call(ec_method *m, const ec_step *step, size_t *next,
                                       ec_error *err) {
  (void)next;
  return ec_run_delegate(m, step->run, err);
}

/* Returns the delegate that has an instruction by itself, in traced calls too; or NULL. */
static const ec_step *find_own_delegate(const ec_method *m, const ec_step *step) {
  if (!ec_trace_of(m) || m->options.delegation != EC_DELEGATE_EACH) return NULL;
  const ec_step *top = m->plan.steps[step->first];
  return top->kind == EC_STEP_Delegated ? top : NULL;
}

/* Results that a call's own delegate does not write, because nothing reads them, are the
 * kernel's. */
static ec_status execute_kernel_call(ec_method *m, const ec_step *step, size_t *next,
                                     ec_error *err) {
  (void)next;
  EC_TRY(ec_run_kernel(m, step, NULL, err));
  const ec_step *own = EC_IS_SMALL ? NULL : find_own_delegate(m, step);
  if (!own) return EC_OK;
  const ec_status status = ec_run_delegate(m, own->run, err);
  if (!ec_is_declined(status)) return status;
  ec_error_clear(err);
  return ec_run_kernel(m, step, NULL, err);
}

/* The reference puts the source into the target's slot: one tensor with two names. An instruction
 * may then resize it under one name while it reads the other, and the planner may give its memory
 * to the next branch. Here a slot keeps its tensor. A target with memory receives a copy; a target
 * without (a placeholder) points to the source's data, as a view does. */
static ec_status execute_move_call(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  (void)next;
  (void)m;
  const ec_instr *in = step->run;
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

static ec_status execute_jump_false_call(ec_method *m, const ec_step *step, size_t *next,
                                         ec_error *err) {
  const ec_instr *in = step->run;
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
  if (!all) *next = (size_t)(in - m->instrs) - in->number + in->destination;
  return EC_OK;
}

static ec_status execute_free_call(ec_method *m, const ec_step *step, size_t *next, ec_error *err) {
  (void)m;
  (void)next;
  (void)err;
  ec_tensor_drop_data(step->run->args[0]->as.tensor);
  return EC_OK;
}

static const ec_handler handlers[] = {
#define EC_INSTR(name, handler) [EC_STEP_##name] = handler,
#include "runtime/instr.def"
#undef EC_INSTR
#ifndef EC_SMALL
#define EC_STEP_KIND(name, handler) [EC_STEP_##name] = handler,
#include "runtime/steps.def"
#undef EC_STEP_KIND
#endif
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

static ec_status count_instr(const ec_method *m, ec_error *err) {
  if (m->budget->instructions-- != 0) return EC_OK;
  return ec_fail_hint(err, EC_INVALID_PROGRAM, EC_HINT_MAX_STEPS,
                      "method '%s' ran %d instructions without an end: it loops for ever",
                      m->name, EC_MAX_INSTRUCTIONS);
}

/* Executes what the plan has at an instruction, and sets `at` to the next one. */
static ec_status execute_at(ec_method *m, size_t *at, const ec_instr **run, ec_error *err) {
  const ec_step *step = m->plan.steps[*at];
  size_t next;
  ec_status status;
  for (;; step = step->fallback) {
    next = *at + step->count;
    *run = step->run;
    m->elements = 0;
    status = handlers[step->kind](m, step, &next, err);
    if (next != *at || !step->fallback) break;
  }
  *at = next;
  return status;
}

/* Executes an instruction, in a traced call. */
static ec_status trace_at(ec_method *m, size_t chain, size_t *at, const ec_instr **run,
                          ec_error *err) {
  const ec_step *step = &m->plan.instrs[*at];
  *run = step->run;
  *at += 1;
  m->elements = 0;
  return ec_traced_step(m, chain, step, handlers[step->kind], at, err);
}

static ec_status execute_chain(ec_method *m, size_t index, ec_error *err) {
  const ec_chain *chain = &m->chains[index];
  const size_t first = (size_t)(chain->instrs - m->instrs), end = first + chain->count;
  for (size_t at = first; at < end;) {
    const ec_instr *in;
    EC_TRY(count_instr(m, err));
    ec_status status =
        ec_trace_of(m) ? trace_at(m, index, &at, &in, err) : execute_at(m, &at, &in, err);
    if (!in) continue;
    if (m->written) ec_mark_written(m, in);
    if (status == EC_OK) status = charge_instr(m, in, err);
    if (status != EC_OK) return fail_in_instr(m, index, in, status, err);
  }
  return EC_OK;
}

static ec_status execute_chains(ec_method *m, ec_error *err) {
  for (size_t i = 0; i < m->chain_count; i++) EC_TRY(execute_chain(m, i, err));
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
  EC_TRY(ec_program_check_unchanged(m->program, err));
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
