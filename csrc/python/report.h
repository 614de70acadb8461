/* Statistics of a method's delegates. */
#ifndef EC_PYTHON_REPORT_H
#define EC_PYTHON_REPORT_H

#include "python/method.h"
#include "python/state.h"

/* Implements Method.backend_report(): returns a list of dictionaries. */
PyObject *ecpy_method_report(ecpy_method *self);
/* Implements Method.undelegated(): returns a list of dictionaries. */
PyObject *ecpy_method_undelegated(ecpy_method *method);

#endif
