/* A program shared by Program, Method and MethodMeta objects. Its count is separate from Python's,
 * so that Program can hold its Methods without a reference cycle. Files and planned memory are then
 * freed with the last object that uses them, not at the next garbage collection. */
#ifndef EC_PYTHON_PROGRAM_REF_H
#define EC_PYTHON_PROGRAM_REF_H

#include "python/state.h"
#include "runtime/describe.h"

typedef struct ecpy_program_ref {
  size_t refs; /* guarded by the GIL */
  ec_program *program;
} ecpy_program_ref;

/* Takes the program, also on failure. */
ecpy_program_ref *ecpy_program_ref_new(ec_program *program);
ecpy_program_ref *ecpy_program_ref_retain(ecpy_program_ref *ref); /* adds a reference */
void ecpy_program_ref_release(ecpy_program_ref *ref);             /* NULL is allowed */

/* Describes a method. If a backend or operator is missing, loads installed plug-ins first. Returns
 * 0, or -1 with an exception. */
int ecpy_describe(ecpy_state *state, ecpy_program_ref *ref, size_t index, ec_method_info *info);

#endif
