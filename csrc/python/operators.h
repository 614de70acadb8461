/* Operators written in Python, and those of plug-ins. */
#ifndef EC_PYTHON_OPERATORS_H
#define EC_PYTHON_OPERATORS_H

#include "kernels/call.h"
#include "python/state.h"

/* The `user` of a registered operator: a function, and how it wants to be called. Each method that
 * uses it owns a reference, which Method shows to the garbage collector. */
typedef struct ecpy_operator {
  PyObject_HEAD
  ecpy_state *state;
  PyInterpreterState *interpreter;
  PyObject *fn;      /* NULL once the collector has cleared it */
  PyObject *kwnames; /* tuple: names of arguments passed by keyword; NULL where there are none */
  bool takes_outs;   /* has parameters for the `out` arguments */
} ecpy_operator;

/* The kernel of all operators written in Python (operator_call.c). */
ec_status ecpy_operator_kernel(ec_call *call);

/* For module.c: what the functions of these names do. */
PyObject *ecpy_operator_rows(ecpy_state *state);
PyObject *ecpy_parse_schema(ecpy_state *state, PyObject *schema);
int ecpy_register_operator(ecpy_state *state, PyObject *args);
int ecpy_unregister_operator(ecpy_state *state, PyObject *name);
void ecpy_unregister_all(ecpy_state *state);
int ecpy_register_operators(ecpy_state *state, PyObject *capsule);

/* All operators, installed plug-ins' too. 0, or -1 with an exception. */
int ecpy_operator_list(ecpy_state *state, ec_op_list *list);

#endif
