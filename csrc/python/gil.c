/* Reacquisition of the GIL by the thread that released it, or by a foreign thread. */
#include "python/state.h"

#include "python/gil.h"

_Thread_local PyThreadState *ecpy_parked;

static void call_parked(PyThreadState *parked, void (*fn)(void *arg), void *arg) {
  ecpy_parked = NULL;
  PyEval_RestoreThread(parked);
  fn(arg);
  ecpy_parked = PyEval_SaveThread();
}

void ecpy_with_gil(void (*fn)(void *arg), void *arg) {
  if (ecpy_parked) {
    call_parked(ecpy_parked, fn, arg);
    return;
  }
  PyObject *type, *value, *trace;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyErr_Fetch(&type, &value, &trace); /* saves an earlier exception if this thread holds the GIL */
  fn(arg);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}
