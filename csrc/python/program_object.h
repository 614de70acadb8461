/* The Program object: its struct and its constructor. */
#ifndef EC_PYTHON_PROGRAM_OBJECT_H
#define EC_PYTHON_PROGRAM_OBJECT_H

#include "python/program_ref.h"
#include "python/state.h"

typedef struct ecpy_program {
  PyObject_HEAD
  ecpy_program_ref *ref;
  PyObject *methods; /* dict: name -> Method, for load_method(name) */
  size_t record_data;
  PyObject *recorded; /* list: all methods, if they are recorded */
} ecpy_program;

/* Bytes of values to record per method for an ETDump; EC_NO_RECORD: no recording. */
#define EC_NO_RECORD SIZE_MAX

/* Returns a Program. It holds its own reference to the program. */
PyObject *ecpy_program_new(ecpy_state *state, ecpy_program_ref *ref, size_t record_data);

#endif
