/* The GIL taken back by the thread that gave it up, or by a thread that never had it. */
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
  PyErr_Fetch(&type, &value, &trace); /* of before, if this thread has the GIL */
  fn(arg);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}
