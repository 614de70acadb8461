/* Python handles signals in its main thread, the first one of the process (and the only one of a
 * forked process). Other threads do not need the GIL for the check. */
#include "python/state.h"

#include "python/interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "python/errors.h"
#include "python/gil.h"

static void handle_signals(void *user) {
  ecpy_interrupt *interrupt = user;
  PyObject *type, *value, *trace;
  /* saves an exception of an operator whose failure a backend ignored */
  PyErr_Fetch(&type, &value, &trace);
  if (PyErr_CheckSignals()) interrupt->exception = ecpy_fetch_exception();
  PyErr_Restore(type, value, trace);
}

static ec_status check_signals(void *user, ec_error *err) {
  ecpy_interrupt *interrupt = user;
  if (syscall(SYS_gettid) != getpid()) return EC_OK;
  ecpy_with_gil(handle_signals, interrupt);
  return interrupt->exception ? ec_fail(err, EC_INTERNAL, "interrupted by a signal") : EC_OK;
}

void ecpy_interrupt_init(ecpy_interrupt *interrupt) {
  *interrupt = (ecpy_interrupt){{check_signals, interrupt}, NULL};
}

bool ecpy_interrupt_raise(ecpy_interrupt *interrupt) {
  PyObject *exception = interrupt->exception;
  interrupt->exception = NULL;
  if (!exception) return false;
  PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
  Py_DECREF(exception);
  return true;
}
