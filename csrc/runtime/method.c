/* Methods: ordered loading, freeing, the lock, attributes, state and memory statistics. */
#include "runtime/method.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/registry.h"
#include "core/alloc.h"
#include "core/small.h"
#include "kernels/llm/kv_cache.h"
#include "runtime/passes/delegate.h"
#include "runtime/exec.h"
#include "runtime/host_call.h"
#include "runtime/load/code.h"
#include "runtime/load/delegates.h"
#include "runtime/memory/planned.h"
#include "runtime/load/values.h"
#include "runtime/memory/placement.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/prepare.h"
#include "runtime/plan.h"
#include "runtime/program_internal.h"
#include "runtime/memory/saved_state.h"

/* Returns the program's lock for methods with shared memory, which exclude each other; else the
 * method's own. */
static ec_lock *find_lock(const ec_method *m) {
  return m->uses_shared_state ? &((ec_program *)(uintptr_t)m->program)->state_lock
                              : &((ec_method *)(uintptr_t)m)->lock;
}

/* True if an instruction changes numbers or strings. Such methods need a snapshot of the values,
 * restored after each call: a failed call must not change the next one's results. A slot keeps its
 * tensor. */
static bool changes_values(const ec_method *m) {
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    if (in->kind == EC_INSTR_MoveCall && in->args[0]->kind != EC_KIND_TENSOR) return true;
    if (in->op && in->op->returns_scalar) return true;
  }
  return false;
}

static ec_status save_first_values(ec_method *m, ec_error *err) {
  if (!changes_values(m)) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, m->value_count, sizeof *m->values, "values", &m->first_values,
                        err));
  memcpy(m->first_values, m->values, m->value_count * sizeof *m->values);
  return EC_OK;
}

/* Initialises the method's own state. Shared state belongs to the program and may be in use. */
static void set_first_state(const ec_method *m) {
  for (size_t i = 0; i < m->initial_count; i++) {
    const ec_placement *p = m->initials[i].placement;
    if (p->arena && m->shared_blocks[p->arena]) continue;
    if (m->initials[i].bytes) memcpy(p->data, m->initials[i].bytes, p->nbytes);
    else memset(p->data, 0, p->nbytes);
  }
}

/* Refuses a KV cache that nothing in the file reads. Programs inside it get the outer method's. */
static ec_status check_kv_cache(ec_method *m, ec_error *err) {
  for (size_t i = 0; i < m->op_count; i++)
    m->uses_kv_cache |= ec_kv_cache_is_used_by(m->ops[i]->name);
  if (m->depth || !m->options.kv_cache || m->uses_kv_cache) return EC_OK;
  return ec_fail(err, EC_INVALID_ARGUMENT,
                 "a KV cache is given, and nothing calls kvcache::update_and_attend: what the "
                 "method keeps between calls is in its own buffers. Load it without a cache");
}

/* Loads the file's part: checked, and converted to native structs. */
static ec_status load_file(ec_method *m, const ec_rows *rows, ec_error *err) {
  EC_TRY(ec_load_operators(m, rows, err));
  EC_TRY(ec_load_memory_sizes(m, rows, err));
  EC_TRY(ec_load_values(m, rows, err));
  EC_TRY(ec_load_io(m, rows, err));
  EC_TRY(ec_find_delegates(m, rows, err));
  EC_TRY(ec_load_chains(m, rows, err));
  EC_TRY(ec_check_delegating_backends(m, err));
  EC_TRY(ec_init_delegates(m, err));
  return EC_IS_SMALL ? EC_OK : check_kv_cache(m, err);
}

/* Gives back pages of the program's files. */
static void release_pages(void *user, const void *data, size_t size) {
  const ec_method *m = user;
  ec_program_release_pages(m->program, data, size);
}

/* Loads the file, places tensors, and plans what executes. */
static ec_status load_stages(ec_method *m, const ec_rows *rows, ec_arena *work, ec_error *err) {
  ec_uses uses;
  EC_TRY(load_file(m, rows, err));
  EC_TRY(ec_collect_uses(m, work, &uses, err));
  EC_TRY(ec_load_memory(m, rows, err));
  if (!EC_IS_SMALL) ec_find_elided_views(&uses);
  EC_TRY(ec_place_tensors(m, &uses, err));
  EC_TRY(ec_find_state(m, &uses, err));
  EC_TRY(save_first_values(m, err));
  set_first_state(m);
  EC_TRY(ec_plan_init(m, err));
  return ec_run_passes(m, &uses, work, err);
}

static ec_status load_method(ec_method *m, size_t index, ec_error *err) {
  ec_rows rows;
  ec_arena work = {0};
  m->pages = (ec_pages){.release = release_pages, .user = m};
  ec_rows_init(&rows, m->program, index);
  const ec_status status = load_stages(m, &rows, &work, err);
  ec_arena_deinit(&work);
  return status;
}

/* Returns a seed from the system's entropy, or from the clock and an address. */
static uint64_t make_seed(const ec_method *m) {
  uint64_t seed;
  struct timespec now;
  if (getentropy(&seed, sizeof seed) == 0) return seed;
  (void)timespec_get(&now, TIME_UTC);
  return (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)now.tv_sec ^ (uintptr_t)m;
}

ec_status ec_method_load_nested(const ec_program *program, const char *name,
                                const ec_method_options *options, int depth, ec_method **out,
                                ec_error *err) {
  size_t index;
  ec_error_clear(err);
  EC_TRY(ec_program_check_unchanged(program, err));
  EC_TRY(ec_program_find_method(program, name, &index, err));
  ec_method *m = ec_alloc_zeroed(sizeof *m);
  if (!m) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for method '%s'", name);
  ec_lock_init(&m->lock);
  m->program = program;
  m->name = program->names[index];
  m->options = *options;
  if (!EC_IS_SMALL) ec_kv_cache_retain(m->options.kv_cache);
  ec_method_seed(m, options->seeded ? options->seed : make_seed(m));
  m->depth = depth;
  m->threads = ec_threads_acquire(options->threads);
  ec_status status = load_method(m, index, err);
  if (status != EC_OK) {
    ec_method_free(m);
    return ec_fail_in(err, status, "method '%s'", program->names[index]);
  }
  *out = m;
  return EC_OK;
}

ec_status ec_method_load(const ec_program *program, const char *name,
                         const ec_method_options *options, ec_method **out, ec_error *err) {
  ec_budget budget;
  ec_budget_init(&budget, options->max_steps ? options->max_steps : ec_program_load_steps(program),
                 options->max_bytes ? options->max_bytes : ec_machine_bytes(), options->interrupt);
  ec_budget_enter(&budget);
  ec_status status = ec_method_load_nested(program, name, options, 0, out, err);
  ec_budget_leave(&budget);
  if (status == EC_OK) (*out)->options.interrupt = NULL;
  return ec_budget_explain(&budget, status, err);
}

/* Delegates of the file come first, then those made at load. */
static const ec_delegate *delegate_at(const ec_method *m, size_t index) {
  return index < m->delegate_count ? &m->delegates[index]
                                   : &m->delegated[index - m->delegate_count].delegate;
}

/* Frees the delegates. A delegate that another thread was running during a fork is in an undefined
 * state and is leaked. */
static void free_delegates(ec_method *m) {
  if (ec_lock_is_lost(find_lock(m))) return;
  for (size_t i = 0; i < ec_method_delegate_count(m); i++) {
    const ec_delegate *d = delegate_at(m, i);
    if (d->ready && d->backend->destroy) d->backend->destroy(d->backend, &ec_host_table, d->handle);
  }
}

void ec_method_free(ec_method *m) {
  if (!m) return;
  free_delegates(m);
  ec_free_products(m);
  for (size_t i = 0; i < m->op_count; i++) ec_op_release(m->ops[i]);
  for (size_t i = 0; i < m->tensor_count; i++) ec_tensor_trim(&m->tensors[i], true);
  for (size_t i = 0; i < m->input_count; i++) ec_free(m->inputs[i].staging);
  for (size_t i = 0; i < m->output_count; i++) ec_free(m->outputs[i].staging);
  for (size_t i = 0; i < m->planned_count; i++)
    if (!m->shared_blocks[i]) ec_free(m->planned[i]);
  if (!EC_IS_SMALL) ec_kv_cache_release(m->options.kv_cache);
  ec_threads_release(m->threads);
  ec_lock_deinit(&m->lock);
  ec_arena_deinit(&m->scratch);
  ec_arena_deinit(&m->records);
  ec_arena_deinit(&m->arena);
  ec_free(m);
}

size_t ec_method_threads(const ec_method *m) { return ec_threads_count(m->threads); }
const char *ec_method_name(const ec_method *m) { return m->name; }
size_t ec_method_input_count(const ec_method *m) { return m->input_count; }
size_t ec_method_output_count(const ec_method *m) { return m->output_count; }
size_t ec_method_operator_count(const ec_method *m) { return m->op_count; }
const ec_op *ec_method_operator(const ec_method *m, size_t index) { return m->ops[index]; }
const ec_value *ec_method_input(const ec_method *m, size_t index) { return m->inputs[index].value; }
const ec_value *ec_method_output(const ec_method *m, size_t index) {
  return m->outputs[index].value;
}

/* ---- the lock ---------------------------------------------------------------------------- */

bool ec_method_try_lock(ec_method *m) { return ec_lock_try(find_lock(m)) == EC_LOCKED; }

bool ec_method_is_mine(const ec_method *m) { return ec_lock_is_mine(find_lock(m)); }

typedef struct waiting {
  const ec_interrupt *interrupt;
  ec_status status;
  ec_error *err;
} waiting;

static bool check_interrupt(void *user) {
  waiting *w = user;
  w->status = w->interrupt->check(w->interrupt->user, w->err);
  return w->status != EC_OK;
}

ec_status ec_method_lock(ec_method *m, const ec_interrupt *interrupt, ec_error *err) {
  waiting w = {interrupt, EC_OK, err};
  switch (ec_lock_wait(find_lock(m), interrupt && interrupt->check ? check_interrupt : NULL, &w)) {
  case EC_LOCKED: return EC_OK;
  case EC_LOCK_INTERRUPTED: return w.status;
  case EC_LOCKED_BY_NOBODY:
    return ec_fail(err, EC_INVALID_STATE,
                   "method '%s', or one that shares memory with it, was running in another thread "
                   "when this process was forked: load its program again", m->name);
  default:
    return ec_fail(err, EC_INVALID_STATE,
                   "method '%s', or one that shares memory with it, is running in this thread",
                   m->name);
  }
}

void ec_method_unlock(ec_method *m) {
  for (size_t i = 0; i < m->input_count; i++) m->inputs[i].binding = EC_UNBOUND_INPUT;
  for (size_t i = 0; i < m->output_count; i++) m->outputs[i].bound = NULL;
  ec_restore_placements(m);
  ec_lock_release(find_lock(m));
}

/* ---- attributes and state ---------------------------------------------------------------- */

size_t ec_method_attribute_count(const ec_method *m) { return m->attribute_count; }
const char *ec_method_attribute_name(const ec_method *m, size_t index) {
  return m->attributes[index].name;
}

ec_tensor ec_method_attribute(const ec_method *m, size_t index) {
  ec_tensor t = *m->attributes[index].tensor;
  /* such tensors have memory only during a call */
  const bool fixed = t.dynamism != EC_DYNAMIC_UNBOUND;
  t.data = fixed ? ec_placement_of(m, m->attributes[index].tensor)->data : NULL;
  t.storage = NULL;
  return t;
}

bool ec_method_attribute_is_mutable(const ec_method *m, size_t index) {
  return !(ec_placement_of(m, m->attributes[index].tensor)->flags & EC_TENSOR_READONLY);
}

void ec_method_seed(ec_method *m, uint64_t seed) { m->random = (ec_random){seed, 0}; }

static void reset_delegates(const ec_method *m) {
  for (size_t i = 0; i < m->delegate_count; i++) {
    const ec_delegate *d = &m->delegates[i];
    if (d->ready && EC_BACKEND_MEMBER(d->backend, reset))
      d->backend->reset(d->backend, &ec_host_table, d->handle);
  }
}

/* A cache whose lock is lost cannot be used again. */
static void reset_cache(ec_kv_cache *cache) {
  if (EC_IS_SMALL || !cache || ec_kv_cache_lock(cache, NULL) != EC_OK) return;
  ec_kv_cache_rewind(cache, 0);
  ec_kv_cache_unlock(cache);
}

void ec_method_reset(ec_method *m) {
  for (size_t i = 1; i < m->planned_count; i++)
    if (m->shared_blocks[i]) ec_state_block_reset(m->shared_blocks[i]);
    else ec_clear(m->planned[i], m->planned_sizes[i]);
  ec_restore_placements(m);
  for (size_t i = 0; i < m->tensor_count; i++) ec_tensor_trim(&m->tensors[i], true);
  set_first_state(m);
  reset_delegates(m);
  if (m->depth == 0) reset_cache(m->options.kv_cache);
}

void ec_method_set_trace(ec_method *m, ec_trace *trace) { m->trace = trace; }

void ec_method_get_memory(const ec_method *m, ec_method_memory *out) {
  const size_t merged = m->merged.data ? m->merged.size : 0;
  *out = (ec_method_memory){.native = m->arena.total - m->folded_bytes - merged + sizeof *m,
                           .merged = merged,
                           .folded = m->folded_bytes,
                           .packed = m->kept.bytes,
                           .recorded = m->records.total,
                           .scratch = m->scratch.total};
  for (size_t i = 1; i < m->planned_count; i++) {
    out->planned += m->planned_sizes[i];
    if (m->shared_blocks[i]) out->shared += m->planned_sizes[i];
  }
  for (size_t i = 0; i < m->tensor_count; i++) out->heap += ec_tensor_heap(&m->tensors[i]);
  for (size_t i = 0; i < m->input_count; i++) out->heap += m->inputs[i].staging_size;
  for (size_t i = 0; i < m->output_count; i++) out->heap += m->outputs[i].staging_size;
}

/* ---- delegates --------------------------------------------------------------------------- */

size_t ec_method_delegate_count(const ec_method *m) {
  return m->delegate_count + m->delegated_count;
}

/* ---- passes ------------------------------------------------------------------------------ */

bool ec_method_pass(const ec_method *m, size_t index, size_t *calls) {
  *calls = m->plan.changed[EC_NO_PASS + 1 + index];
  return ec_pass_applies(m, index);
}

ec_delegation ec_method_delegation(const ec_method *m) { return m->options.delegation; }

size_t ec_method_delegated_calls(const ec_method *m, size_t index) {
  return index < m->delegate_count ? 0 : m->delegated[index - m->delegate_count].calls;
}

const char *ec_method_nested_delegation(const ec_method *m, size_t index, size_t *calls) {
  const bool is_of_file = index < m->delegate_count;
  *calls = is_of_file ? m->delegates[index].delegated.calls : 0;
  return is_of_file ? m->delegates[index].delegated.backend : NULL;
}

void ec_method_visit_delegated(const ec_method *m, size_t index,
                             void (*visit)(void *user, const char *op), void *user) {
  if (index < m->delegate_count) return;
  const ec_delegated_run *run = &m->delegated[index - m->delegate_count];
  for (size_t i = run->first; i < run->end; i++)
    if (ec_plan_is(m, i, EC_PASS_delegate)) visit(user, m->instrs[i].op->name);
}

bool ec_method_undelegated(const ec_method *m, size_t index, const char **op, const char **reason,
                         size_t *calls) {
  if (index >= m->undelegated_count) return false;
  *op = m->undelegated[index].op;
  *reason = m->undelegated[index].reason;
  *calls = m->undelegated[index].calls;
  return true;
}

const char *ec_method_delegate_id(const ec_method *m, size_t index) {
  return delegate_at(m, index)->backend->id;
}

const ec_backend *ec_method_delegate(const ec_method *m, size_t index, void **handle) {
  const ec_delegate *d = delegate_at(m, index);
  *handle = d->ready ? d->handle : NULL;
  return d->backend;
}

void ec_method_report(const ec_method *m, size_t index,
                      void (*add)(void *user, const char *name, int64_t value), void *user) {
  const ec_delegate *d = delegate_at(m, index);
  if (EC_BACKEND_MEMBER(d->backend, report)) d->backend->report(d->backend, d->handle, add, user);
}
