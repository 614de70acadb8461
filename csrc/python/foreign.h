/* Results and exceptions of functions written in Python: operators and backends. */
#ifndef EC_PYTHON_FOREIGN_H
#define EC_PYTHON_FOREIGN_H

#include "core/error.h"
#include "core/tensor.h"
#include "python/state.h"

/* A call of such a function, for messages: "the function", "Simulator.execute". */
typedef struct ecpy_foreign {
  ecpy_state *state;
  const char *what;
  ec_error *err;
} ecpy_foreign;

/* Returns a function's result called `name` as an array: an array, a NumPy scalar, an object with
 * __dlpack__. NULL with a pending exception, or with the status of an error. */
PyArrayObject *ecpy_foreign_array(const ecpy_foreign *f, const char *name, PyObject *object,
                                  ec_status *status);

/* Checks that an array has the dtype of the program. */
ec_status ecpy_foreign_dtype(const ecpy_foreign *f, const char *name, PyArrayObject *array,
                             ec_dtype expected);

/* Copies an array into a tensor of its shape. Returns EC_INTERNAL with a pending exception. */
ec_status ecpy_foreign_copy(ecpy_state *state, const ec_tensor *tensor, PyArrayObject *array);

/* Sets the message from the pending exception, which becomes the cause of ours, and returns its
 * code if it is an Error, else Internal. */
ec_status ecpy_foreign_raised(const ecpy_foreign *f);

#endif
