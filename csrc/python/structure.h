/* The whole of a method as plain dictionaries. */
#ifndef EC_PYTHON_STRUCTURE_H
#define EC_PYTHON_STRUCTURE_H

#include "python/program_ref.h"
#include "python/state.h"

/* Program._structure, _delegate and _payload, of method `name`. */
PyObject *ecpy_program_structure(ecpy_state *state, ecpy_program_ref *ref, const char *name);
PyObject *ecpy_program_delegate(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                                Py_ssize_t delegate);
PyObject *ecpy_program_payload(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                               Py_ssize_t delegate);

#endif
