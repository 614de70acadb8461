/* Exceptions: one class for each status, made from core/status.def. */
#ifndef EC_PYTHON_ERRORS_H
#define EC_PYTHON_ERRORS_H

#include "python/state.h"

/* Makes Error and its subclasses and adds them to the module. */
int ecpy_errors_init(PyObject *module, ecpy_state *state);

/* Raises the exception of an error: its sentence, then "[error 0x12: invalid argument]". Returns
 * NULL, so that `return ecpy_raise(...)` is one line. */
PyObject *ecpy_raise(ecpy_state *state, const ec_error *err);

/* The same with the exception that caused it, which is taken; one that is no Exception
 * (KeyboardInterrupt) is raised as it is. `cause` may be NULL. */
void ecpy_raise_from(ecpy_state *state, const ec_error *err, PyObject *cause);

/* The pending exception with its traceback as an object, no longer pending; NULL for none. */
PyObject *ecpy_fetch_exception(void);

/* The same from a status and a PyUnicode_FromFormat format. */
PyObject *ecpy_raise_format(ecpy_state *state, ec_status status, const char *format, ...);

/* Raises MemoryError: "no memory for <what>". Gives NULL. */
PyObject *ecpy_no_memory(const char *what);

#endif
