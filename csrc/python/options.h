/* Options of backends: Python values to C and back. */
#ifndef EC_PYTHON_OPTIONS_H
#define EC_PYTHON_OPTIONS_H

#include "python/state.h"

#include "core/arena.h"
#include "runtime/method.h"

/* An option from its key and value (bool, int, float, str), whose texts are copied to the arena.
 * -1 with TypeError, OverflowError or ValueError that begins with `where`. */
int ecpy_option_parse(PyObject *key, PyObject *value, const char *where, ec_arena *arena,
                      ec_backend_option *out);

/* load_method's backend_options, None or {id: {key: value}}, copied to the arena. */
int ecpy_options_parse(PyObject *object, ec_arena *arena, ec_method_options *out);

/* The value of an option. */
PyObject *ecpy_option_value(const ec_backend_option *option);

#endif
