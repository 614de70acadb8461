/* Backend options: conversion from Python values to C and back. */
#ifndef EC_PYTHON_OPTIONS_H
#define EC_PYTHON_OPTIONS_H

#include "python/state.h"

#include "core/arena.h"
#include "runtime/method.h"

/* Parses an option's key and value (bool, int, float, str); texts are copied to the arena. Returns
 * -1 with TypeError, OverflowError or ValueError that begins with `where`. */
int ecpy_option_parse(PyObject *key, PyObject *value, const char *where, ec_arena *arena,
                      ec_backend_option *out);

/* Parses load_method's backend_options, None or {id: {key: value}}, into the arena. */
int ecpy_options_parse(PyObject *object, ec_arena *arena, ec_method_options *out);

/* Returns the value of an option. */
PyObject *ecpy_option_value(const ec_backend_option *option);

#endif
