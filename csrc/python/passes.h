/* The passes that plan how a method is executed. */
#ifndef EC_PYTHON_PASSES_H
#define EC_PYTHON_PASSES_H

#include "python/method.h"
#include "python/state.h"

/* Reads the names of the passes to run: an iterable of strings; None: those of the environment
 * variable EXECUTORCH_C_PASSES, separated by commas, or all. Sets the bits of the others. Returns
 * -1 with an exception. */
int ecpy_parse_passes(PyObject *names, uint32_t *skipped);

/* Method.passes(): returns a list of dictionaries. */
PyObject *ecpy_method_passes(PyObject *method, PyObject *unused);

#endif
