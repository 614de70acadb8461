/* Schemas of file formats for Python: what executorch_c/_flatbuffers.py writes by. */
#ifndef EC_PYTHON_TABLES_H
#define EC_PYTHON_TABLES_H

#include "python/state.h"

/* {table: {field: type}} of "pte", "ptd" or "bpte"; KeyError for another name. */
PyObject *ecpy_file_tables(PyObject *name);

#endif
