/* Exceptions: one class for each status, created from core/status.def. */
#ifndef EC_PYTHON_ERRORS_H
#define EC_PYTHON_ERRORS_H

#include "python/state.h"

/* Creates Error and its subclasses and adds them to the module. */
int ecpy_errors_init(PyObject *module, ecpy_state *state);

/* Raises the exception of an error: its message, then "[error 0x12: invalid argument]". Returns
 * NULL, so that `return ecpy_raise(...)` is one line. */
PyObject *ecpy_raise(ecpy_state *state, const ec_error *err);

/* Raises the exception of an error with its cause, which is taken and may be NULL. A cause that is
 * not an Exception (KeyboardInterrupt) is raised itself. */
void ecpy_raise_from(ecpy_state *state, const ec_error *err, PyObject *cause);

/* Returns the pending exception with its traceback, and clears it; NULL without one. */
PyObject *ecpy_fetch_exception(void);

/* Raises the exception of a status with a PyUnicode_FromFormat message. */
PyObject *ecpy_raise_format(ecpy_state *state, ec_status status, const char *format, ...);

/* Raises MemoryError: "no memory for <what>". Returns NULL. */
PyObject *ecpy_no_memory(const char *what);

#endif
