/* Numbers that several functions take as arguments. */
#ifndef EC_PYTHON_ARGUMENTS_H
#define EC_PYTHON_ARGUMENTS_H

#include "python/state.h"

/* A seed: any int, modulo 2^64, as eager takes negative ones. */
int ecpy_parse_seed(PyObject *object, uint64_t *seed);

/* A number of threads. */
int ecpy_parse_threads(PyObject *object, size_t *threads);

/* A limit of loading and calls, at least 1; None leaves it as it is. `name` for messages. */
int ecpy_parse_limit(const char *name, PyObject *object, uint64_t *limit);

#endif
