/* Operators written in Python, and those of plug-ins. */
#ifndef EC_PYTHON_OPERATORS_H
#define EC_PYTHON_OPERATORS_H

#include "kernels/call.h"
#include "python/state.h"

/* Implementations of the functions of the same names in module.c. */
PyObject *ecpy_operator_rows(ecpy_state *state);
PyObject *ecpy_parse_schema(ecpy_state *state, PyObject *schema);
int ecpy_register_operator(ecpy_state *state, PyObject *args);
int ecpy_unregister_operator(ecpy_state *state, PyObject *name);
void ecpy_unregister_all(ecpy_state *state);
int ecpy_register_operators(ecpy_state *state, PyObject *capsule);

/* Collects all operators, including those of installed plug-ins. Returns 0, or -1 with an
 * exception. */
int ecpy_operator_list(ecpy_state *state, ec_op_list *list);

#endif
