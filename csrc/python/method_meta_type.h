/* MethodMeta: the description of a method that is not loaded. */
#ifndef EC_PYTHON_METHOD_META_TYPE_H
#define EC_PYTHON_METHOD_META_TYPE_H

#include "python/program_ref.h"
#include "python/state.h"

extern PyType_Spec ecpy_method_meta_spec;

/* Holds a reference of its own to the program. */
PyObject *ecpy_method_meta_new(ecpy_state *state, ecpy_program_ref *ref, size_t index);

/* The description that a MethodMeta holds. */
const ec_method_info *ecpy_method_meta_info(PyObject *meta);

#endif
