/* One call of Python's logging per loaded program or method; none for calls of methods. */
#include "python/state.h"

#include "python/log.h"

#include "python/objects.h"
#include "trace/trace.h"

/* True if the process has imported logging. A process without it does not import executorch_c._log,
 * which would take longer than loading a small program. */
static bool is_logging_imported(void) {
  PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
  return PyMapping_HasKeyString(modules, "logging") == 1;
}

PyObject *ecpy_log_made(const char *function, PyObject *made, PyObject *detail, uint64_t start) {
  if (!made || !is_logging_imported()) return made;
  const double seconds = (double)(ec_trace_now() - start) / 1e9;
  PyObject *what = Py_BuildValue("OOd", made, detail, seconds);
  PyObject *done = what ? ecpy_call_python("executorch_c._log", function, what) : NULL;
  Py_XDECREF(what);
  if (!done) Py_CLEAR(made);
  Py_XDECREF(done);
  return made;
}
