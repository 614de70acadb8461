/* Programs: opening, and lookup of methods by name. */
#include "runtime/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/budget.h"
#include "core/limits.h"
#include "core/small.h"
#include "kernels/op.h"
#include "runtime/program_internal.h"

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ec_status check_names_unique(const ec_program *p, ec_error *err) {
  const char **sorted = ec_alloc_array(p->plans.count, sizeof *sorted), *twice = NULL;
  if (!sorted) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for method names");
  if (p->plans.count) memcpy(sorted, p->names, p->plans.count * sizeof *sorted);
  qsort(sorted, p->plans.count, sizeof *sorted, compare_names);
  for (uint32_t i = 1; i < p->plans.count && !twice; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0) twice = sorted[i];
  ec_free(sorted);
  return twice ? ec_fail(err, EC_INVALID_PROGRAM, "two methods are named '%s'", twice) : EC_OK;
}

/* Loads the names of all methods, which must be present and unique. */
static ec_status load_names(ec_program *p, ec_error *err) {
  p->plans = ec_fb_vector(p->pte.root, EC_PTE_Program_execution_plan);
  if (p->plans.count > EC_MAX_METHODS)
    return ec_fail(err, EC_NOT_SUPPORTED, "%u methods, at most %d are supported", p->plans.count,
                   EC_MAX_METHODS);
  EC_TRY(ec_arena_array(&p->arena, p->plans.count, sizeof *p->names, "method names", &p->names,
                        err));
  for (uint32_t i = 0; i < p->plans.count; i++) {
    p->names[i] = ec_fb_string(ec_fb_vec_table(p->plans, i), EC_PTE_ExecutionPlan_name);
    if (!p->names[i])
      return ec_fail(err, EC_INVALID_PROGRAM, "execution_plan[%u] has no name", i);
  }
  return check_names_unique(p, err);
}

static ec_status open_data_files(ec_program *p, ec_error *err) {
  char text[EC_PTD_TEXT];
  ec_ptd *ptds;
  EC_TRY(ec_arena_array(&p->arena, p->data_count, sizeof *ptds, "data files", &ptds, err));
  for (size_t i = 0; i < p->data_count; i++) {
    ec_status status = ec_ptd_open(&ptds[i], p->data[i].data, p->data[i].size, err);
    if (status != EC_OK)
      return ec_fail_in(err, status, "%s", ec_ptd_text(p->data[i].path, i, text));
    ptds[i].path = p->data[i].path;
  }
  return ec_named_map_init(&p->named, &p->pte, ptds, p->data_count, &p->package.items, &p->arena,
                           err);
}

/* Opens a package, whose methods share state. Its work and memory are limited like those of a
 * method's load. */
static ec_status open_package(ec_program *p, ec_error *err) {
  ec_budget budget;
  ec_budget_init(&budget, ec_program_load_steps(p), ec_machine_bytes(), NULL);
  ec_budget_enter(&budget);
  const ec_status status = ec_package_open(&p->package, &p->file, &p->arena, err);
  ec_budget_leave(&budget);
  p->options.share_mutable_buffers |= p->package.opened.program != NULL;
  return ec_budget_explain(&budget, status, err);
}

static ec_status open_program(ec_program *p, ec_error *err) {
  const ec_backend_package *package = &p->package.opened;
  EC_TRY(ec_ops_init(err));
  if (!EC_IS_SMALL) EC_TRY(open_package(p, err));
  const void *program = package->program ? package->program : p->file.data;
  const size_t size = package->program ? package->program_size : p->file.size;
  EC_TRY(ec_pte_open(&p->pte, program, size, p->options.verification, err));
  EC_TRY(load_names(p, err));
  return open_data_files(p, err);
}

ec_status ec_program_open(const ec_program_options *options, ec_source *file, ec_source *data,
                          size_t data_count, ec_program **out, ec_error *err) {
  ec_status status = EC_OK;
  ec_program *p = ec_alloc_zeroed(sizeof *p);
  ec_source *sources = ec_alloc_array(data_count, sizeof *sources);
  if (!p || !sources) {
    status = ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a program");
    ec_source_close(file);
    for (size_t i = 0; i < data_count; i++) ec_source_close(&data[i]);
    ec_free(sources);
    ec_free(p);
    return status;
  }
  p->options = *options;
  p->file = *file;
  p->data = sources;
  p->data_count = data_count;
  if (data_count) memcpy(sources, data, data_count * sizeof *sources);
  ec_lock_init(&p->state_lock);
  ec_lock_init(&p->copy_lock);
  EC_GOTO(status, open_program(p, err));
  *out = p;
  return EC_OK;
fail:
  ec_program_free(p);
  return status;
}

void ec_program_free(ec_program *p) {
  if (!p) return;
  ec_state_blocks_deinit(&p->state);
  ec_lock_deinit(&p->state_lock);
  ec_lock_deinit(&p->copy_lock);
  ec_arena_deinit(&p->arena);
  if (!EC_IS_SMALL) ec_package_close(&p->package);
  ec_source_close(&p->file);
  for (size_t i = 0; i < p->data_count; i++) ec_source_close(&p->data[i]);
  ec_free(p->data);
  ec_free(p);
}

const ec_named_data *ec_program_data(const ec_program *program, const char *key) {
  const ec_named_data *data = NULL;
  for (; program && !data; program = program->outer)
    data = ec_named_map_find(&program->named, key);
  return data;
}

const void *ec_program_copy(const ec_program *program, const char *key) {
  ec_lock *lock = &((ec_program *)(uintptr_t)program)->copy_lock;
  const ec_named_data *item = ec_named_map_find(&program->named, key);
  if (!item || ec_lock_wait(lock, NULL, NULL) != EC_LOCKED) return NULL;
  const void *copy = ec_package_copy(&program->package, item);
  ec_lock_release(lock);
  return copy;
}

bool ec_program_named_data(const ec_program *program, const char *key, ec_bytes *out) {
  const ec_named_data *data = ec_program_data(program, key);
  if (data) *out = data->bytes;
  return data;
}

ec_status ec_program_check_unchanged(const ec_program *p, ec_error *err) {
  EC_TRY(ec_source_check_unchanged(&p->file, err));
  for (size_t i = 0; i < p->data_count; i++) EC_TRY(ec_source_check_unchanged(&p->data[i], err));
  return EC_OK;
}

uint64_t ec_program_bytes(const ec_program *p) {
  uint64_t bytes = p->file.size;
  for (size_t i = 0; i < p->data_count; i++) bytes += p->data[i].size;
  return bytes;
}

uint64_t ec_program_load_steps(const ec_program *p) {
  return EC_LOAD_STEPS + EC_LOAD_STEPS_PER_BYTE * ec_program_bytes(p);
}

static size_t bytes_from(const void *data, const void *base, size_t size) {
  const uintptr_t at = (uintptr_t)data - (uintptr_t)base;
  return at < size ? size - at : 0;
}

size_t ec_program_bytes_from(const ec_program *p, const void *data) {
  const ec_backend_package *package = &p->package.opened;
  size_t bytes = bytes_from(data, p->file.data, p->file.size);
  if (!bytes) bytes = bytes_from(data, package->program, package->program_size);
  if (!bytes) bytes = bytes_from(data, package->copies, package->copies_size);
  for (size_t i = 0; !bytes && i < p->data_count; i++)
    bytes = bytes_from(data, p->data[i].data, p->data[i].size);
  return bytes;
}

void ec_program_release_pages(const ec_program *program, const void *data, size_t size) {
  for (; program; program = program->outer) {
    ec_source_release_pages(&program->file, data, size);
    for (size_t i = 0; i < program->data_count; i++)
      ec_source_release_pages(&program->data[i], data, size);
  }
}

size_t ec_program_method_count(const ec_program *program) { return program->plans.count; }

const char *ec_program_method_name(const ec_program *program, size_t index) {
  return program->names[index];
}

ec_status ec_program_find_method(const ec_program *program, const char *name, size_t *index,
                                 ec_error *err) {
  for (size_t i = 0; i < program->plans.count; i++)
    if (strcmp(program->names[i], name) == 0) {
      *index = i;
      return EC_OK;
    }
  ec_fail(err, EC_NOT_FOUND, "no method '%s'; the program has ", name);
  for (size_t i = 0; i < program->plans.count; i++)
    ec_error_append(err, "%s'%s'", i ? ", " : "", program->names[i]);
  if (!program->plans.count) ec_error_append(err, "none");
  return EC_NOT_FOUND;
}
