/* The GIL: given up while the runtime works, taken back for Python code below it. */
#ifndef EC_PYTHON_GIL_H
#define EC_PYTHON_GIL_H

#include "python/state.h"

/* The state of this thread while it has given up the GIL in ecpy_without_gil; NULL while not. */
extern _Thread_local PyThreadState *ecpy_parked;

/* Calls fn(arg) without the GIL. The only place of this layer where it is given up. */
static inline void ecpy_without_gil(void (*fn)(void *arg), void *arg) {
  ecpy_parked = PyEval_SaveThread();
  fn(arg);
  PyEval_RestoreThread(ecpy_parked);
  ecpy_parked = NULL;
}

/* Calls fn(arg) with the GIL, from inside ecpy_without_gil or from anywhere else. An exception that
 * fn leaves is the thread's when it comes out of ecpy_without_gil. */
void ecpy_with_gil(void (*fn)(void *arg), void *arg);

#endif
