/* The contents of a program's file as plain dictionaries. */
#ifndef EC_PYTHON_INFO_H
#define EC_PYTHON_INFO_H

#include "python/program_ref.h"
#include "python/state.h"

/* Implement Program.info() and Program.requirements(). */
PyObject *ecpy_program_info(ecpy_state *state, ecpy_program_ref *ref);
PyObject *ecpy_program_requirements(ecpy_state *state, ecpy_program_ref *ref);

#endif
