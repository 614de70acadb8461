/* MethodMeta: the description of a method, without loading it. */
#ifndef EC_PYTHON_METHOD_META_TYPE_H
#define EC_PYTHON_METHOD_META_TYPE_H

#include "python/program_ref.h"
#include "python/state.h"

extern PyType_Spec ecpy_method_meta_spec;

/* Returns a MethodMeta. It holds its own reference to the program. */
PyObject *ecpy_method_meta_new(ecpy_state *state, ecpy_program_ref *ref, size_t index);

/* Returns the description in a MethodMeta. */
const ec_method_info *ecpy_method_meta_info(PyObject *meta);

#endif
