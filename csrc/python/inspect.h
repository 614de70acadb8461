/* A complete method as plain dictionaries. */
#ifndef EC_PYTHON_INSPECT_H
#define EC_PYTHON_INSPECT_H

#include "python/program_ref.h"
#include "python/state.h"

/* Implement Program._structure, _delegate and _payload for method `name`. */
PyObject *ecpy_inspect_method(ecpy_state *state, ecpy_program_ref *ref, const char *name);
PyObject *ecpy_inspect_delegate(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                                Py_ssize_t delegate);
PyObject *ecpy_inspect_payload(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                               Py_ssize_t delegate);

#endif
