/* The trace of a Method, displayed by executorch_c/trace.py. */
#ifndef EC_PYTHON_TRACE_H
#define EC_PYTHON_TRACE_H

#include "python/method.h"

/* Starts a trace of all calls: Method._trace_start. `alter` (None: no function) is called with each
 * result of an instruction or node: (kind, name, depth, chain, instruction, delegate, debug handle,
 * number of the node, number of the result, array). It may change the array. Raises
 * InvalidStateError if a trace is running. */
PyObject *ecpy_trace_start(PyObject *self, PyObject *args);

/* Stops the trace and returns (events, dropped events, dropped values). An event is (kind, name,
 * depth, chain, instruction, delegate, debug handle, start, duration, failed, values), with None
 * for missing numbers. A value is (name, is output, dtype, shape, dim order, nbytes, data, slot,
 * range). Its data is a read-only array, a number, or None; its dtype is None for numbers. Its
 * range is (NaNs, infinities, negative infinities, index of the first of them in memory or -1, low,
 * high) or None. */
PyObject *ecpy_trace_stop(ecpy_method *self);

/* Records all calls outside a trace, with at most `max_data` bytes of values. Called once. */
int ecpy_trace_record(ecpy_method *self, size_t max_data);

/* Returns the record so far in the same form. Later calls go to the next record. */
PyObject *ecpy_trace_drain(ecpy_method *self);

#endif
