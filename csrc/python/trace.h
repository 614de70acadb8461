/* The trace of a Method, which executorch_c/trace.py shows. */
#ifndef EC_PYTHON_TRACE_H
#define EC_PYTHON_TRACE_H

#include "python/method.h"

/* Starts a trace of all calls that keeps what these EC_TRACE_* bits say; -1 with
 * InvalidStateError where there is one. */
int ecpy_trace_start(ecpy_method *self, unsigned keeps, size_t max_bytes);

/* Ends it: (events, dropped events, dropped values). An event is (kind, name, depth, chain,
 * instruction, delegate, debug handle, start, duration, failed, values), numbers None where there
 * is none; a value is (name, is output, dtype, shape, dim order, nbytes, data, slot, range), with a
 * read-only array, a number, or None as data, dtype None for numbers, and (NaNs, infinities,
 * negative infinities, first of them in memory or -1, low, high) or None as range. */
PyObject *ecpy_trace_stop(ecpy_method *self);

/* Has all calls outside of such a trace recorded, with at most so many bytes of values; once. */
int ecpy_trace_record(ecpy_method *self, size_t max_data);

/* What was recorded so far, as above; later calls are in the next one. */
PyObject *ecpy_trace_drain(ecpy_method *self);

#endif
