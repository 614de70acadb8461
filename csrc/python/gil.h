/* The GIL: released while the runtime works, reacquired for Python code called from it. */
#ifndef EC_PYTHON_GIL_H
#define EC_PYTHON_GIL_H

#include "python/state.h"

/* The state of this thread while ecpy_without_gil has released the GIL; otherwise NULL. */
extern _Thread_local PyThreadState *ecpy_parked;

/* Calls fn(arg) without the GIL. No other code of this layer releases it. */
static inline void ecpy_without_gil(void (*fn)(void *arg), void *arg) {
  ecpy_parked = PyEval_SaveThread();
  fn(arg);
  PyEval_RestoreThread(ecpy_parked);
  ecpy_parked = NULL;
}

/* Calls fn(arg) with the GIL, from inside ecpy_without_gil or anywhere else. An exception left by
 * fn becomes the thread's when ecpy_without_gil returns. */
void ecpy_with_gil(void (*fn)(void *arg), void *arg);

#endif
