/* The Program object. */
#include "python/state.h"

#include "python/program_object.h"

#include "python/program_ref.h"

PyObject *ecpy_program_new(ecpy_state *state, ecpy_program_ref *ref, size_t record_data) {
  PyTypeObject *type = state->program_type;
  ecpy_program *self = ecpy_new_object(type);
  if (!self) return NULL;
  self->ref = ecpy_program_ref_retain(ref);
  self->methods = PyDict_New();
  self->record_data = record_data;
  self->recorded = PyList_New(0);
  if (!self->methods || !self->recorded) Py_CLEAR(self);
  return (PyObject *)self;
}
