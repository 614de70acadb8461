/* Program: the type of ecpy_program objects. */
#ifndef EC_PYTHON_PROGRAM_TYPE_H
#define EC_PYTHON_PROGRAM_TYPE_H

#include "python/state.h"

extern PyType_Spec ecpy_program_spec;

#endif
