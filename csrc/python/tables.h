/* Schemas of file formats for Python: what executorch_c/_flatbuffers.py writes
 * and reads by. */
#ifndef EC_PYTHON_TABLES_H
#define EC_PYTHON_TABLES_H

#include "python/state.h"

/* {table: {field: type}} of "pte", "ptd", "bpte" or "etdump"; KeyError for another name. */
PyObject *ecpy_file_tables(PyObject *name);

/* Implements _core._check_etdump for a buffer. */
PyObject *ecpy_check_etdump(ecpy_state *state, PyObject *data);

#endif
