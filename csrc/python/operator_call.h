/* Operators written in Python: the object that represents one, and its calls. */
#ifndef EC_PYTHON_OPERATOR_CALL_H
#define EC_PYTHON_OPERATOR_CALL_H

#include "kernels/call.h"
#include "python/state.h"

extern PyType_Spec ecpy_operator_spec; /* internal: not in the module */

/* The `user` of a registered operator: a function and its calling convention. Each method that uses
 * it owns a reference, which Method exposes to the garbage collector. */
typedef struct ecpy_operator {
  PyObject_HEAD
  ecpy_state *state;
  PyInterpreterState *interpreter;
  PyObject *fn;      /* NULL after the collector has cleared it */
  PyObject *kwnames; /* names of arguments passed by keyword, a tuple; NULL: none */
  bool takes_outs;   /* has parameters for the `out` arguments */
} ecpy_operator;

/* The kernel of all operators written in Python. */
ec_status ecpy_operator_kernel(ec_call *call);

#endif
