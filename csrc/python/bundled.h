/* Bundled programs: what executorch_c/bundled.py is told about a .bpte. */
#ifndef EC_PYTHON_BUNDLED_H
#define EC_PYTHON_BUNDLED_H

#include "python/state.h"

/* What _core._read_bundled gives for a buffer. */
PyObject *ecpy_read_bundled(ecpy_state *state, PyObject *data);

#endif
