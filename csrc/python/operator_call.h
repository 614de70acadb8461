/* Operators written in Python: the object behind one, and one call of it. */
#ifndef EC_PYTHON_OPERATOR_CALL_H
#define EC_PYTHON_OPERATOR_CALL_H

#include "kernels/call.h"
#include "python/state.h"

extern PyType_Spec ecpy_operator_spec; /* not in the module: nobody sees one */

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

/* The kernel of all operators written in Python. */
ec_status ecpy_operator_kernel(ec_call *call);

#endif
