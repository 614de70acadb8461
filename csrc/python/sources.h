/* Bytes of a program or data file. */
#ifndef EC_PYTHON_SOURCES_H
#define EC_PYTHON_SOURCES_H

#include "format/source.h"
#include "python/state.h"

/* Opens a path, a buffer, or a file object as an ec_source. Returns 0, or -1 with an exception. */
int ecpy_source_open(ecpy_state *state, PyObject *data, ec_mlock mlock, ec_source *out);

#endif
