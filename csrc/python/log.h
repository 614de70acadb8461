/* What is told to Python's logging, which executorch_c/_log.py knows how to word. */
#ifndef EC_PYTHON_LOG_H
#define EC_PYTHON_LOG_H

#include "python/state.h"

/* Calls _log.<function>((made, detail, seconds since `start`)) and gives `made` back; NULL (and
 * `made` is released) where a handler or filter raises. `made` NULL: nothing happens. `start` is
 * that of ec_trace_now. */
PyObject *ecpy_log_made(const char *function, PyObject *made, PyObject *detail, uint64_t start);

#endif
