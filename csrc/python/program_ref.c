/* Programs with a reference count. */
#include "python/state.h"

#include "python/program_ref.h"

#include "python/backends.h"
#include "python/errors.h"
#include "python/gil.h"

static void free_program(void *program) { ec_program_free(program); }

ecpy_program_ref *ecpy_program_ref_new(ec_program *program) {
  ecpy_program_ref *ref = PyMem_Malloc(sizeof *ref);
  if (!ref) {
    ecpy_without_gil(free_program, program);
    ecpy_no_memory("a program");
    return NULL;
  }
  *ref = (ecpy_program_ref){1, program};
  return ref;
}

ecpy_program_ref *ecpy_program_ref_retain(ecpy_program_ref *ref) {
  ref->refs++;
  return ref;
}

void ecpy_program_ref_release(ecpy_program_ref *ref) {
  if (!ref || --ref->refs) return;
  ecpy_without_gil(free_program, ref->program);
  PyMem_Free(ref);
}

static bool needs_plugins(const ec_method_info *info) {
  for (size_t i = 0; i < info->operator_count; i++)
    if (!info->operators[i].available) return true;
  for (size_t i = 0; i < info->delegate_count; i++)
    if (!info->delegates[i].registered) return true;
  return false;
}

int ecpy_describe(ecpy_state *state, ecpy_program_ref *ref, size_t index, ec_method_info *info) {
  ec_error err;
  ec_error_clear(&err);
  ec_status status = ec_program_describe(ref->program, index, info, &err);
  if (status == EC_OK && needs_plugins(info) && state->discovered != ECPY_FOUND_ALL) {
    ec_method_info_deinit(info);
    if (ecpy_discover(state)) return -1;
    status = ec_program_describe(ref->program, index, info, &err);
  }
  if (status == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}
