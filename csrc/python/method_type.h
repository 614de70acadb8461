/* Method: the type of ecpy_method objects. */
#ifndef EC_PYTHON_METHOD_TYPE_H
#define EC_PYTHON_METHOD_TYPE_H

#include "python/program_ref.h"
#include "python/state.h"
#include "runtime/method.h"

extern PyType_Spec ecpy_method_spec;

/* Loads a method. It holds its own reference to the program. */
PyObject *ecpy_method_new(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                          const ec_method_options *options);

#endif
