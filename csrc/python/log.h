/* Messages for Python's logging, worded by executorch_c/_log.py. */
#ifndef EC_PYTHON_LOG_H
#define EC_PYTHON_LOG_H

#include "python/state.h"

/* Calls _log.<function>((made, detail, seconds since `start`)) and returns `made`. If a handler or
 * filter raises, releases `made` and returns NULL. Does nothing if `made` is NULL. `start` is a
 * time of ec_trace_now. */
PyObject *ecpy_log_made(const char *function, PyObject *made, PyObject *detail, uint64_t start);

#endif
