/* A complete method as plain dictionaries. */
#ifndef EC_PYTHON_STRUCTURE_H
#define EC_PYTHON_STRUCTURE_H

#include "python/program_ref.h"
#include "python/state.h"

/* Implement Program._structure, _delegate and _payload for method `name`. */
PyObject *ecpy_program_structure(ecpy_state *state, ecpy_program_ref *ref, const char *name);
PyObject *ecpy_program_delegate(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                                Py_ssize_t delegate);
PyObject *ecpy_program_payload(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                               Py_ssize_t delegate);

#endif
