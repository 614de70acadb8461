/* Parsing of numeric arguments that several functions share. */
#ifndef EC_PYTHON_ARGUMENTS_H
#define EC_PYTHON_ARGUMENTS_H

#include "python/state.h"

/* Parses an int; the nearest Py_ssize_t for a larger one. `name` is for messages. */
int ecpy_parse_size(const char *name, PyObject *object, Py_ssize_t *size);

/* Parses a seed: any int, modulo 2^64, because eager PyTorch accepts negative ones. */
int ecpy_parse_seed(PyObject *object, uint64_t *seed);

/* Parses a number of threads. */
int ecpy_parse_threads(PyObject *object, size_t *threads);

/* Parses a limit on loading and calls, at least 1; None leaves `limit` unchanged. `name` is for
 * messages. */
int ecpy_parse_limit(const char *name, PyObject *object, uint64_t *limit);

#endif
