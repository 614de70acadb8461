/* Bundled programs: the contents of a .bpte for executorch_c/bundled.py. */
#ifndef EC_PYTHON_BUNDLED_H
#define EC_PYTHON_BUNDLED_H

#include "python/state.h"

/* Implements _core._read_bundled for a buffer. */
PyObject *ecpy_read_bundled(ecpy_state *state, PyObject *data);

#endif
