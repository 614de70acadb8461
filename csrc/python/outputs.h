/* Outputs of a call: fresh arrays that own their memory, or the caller's. */
#ifndef EC_PYTHON_OUTPUTS_H
#define EC_PYTHON_OUTPUTS_H

#include "python/inputs.h"
#include "python/method.h"
#include "python/state.h"

/* Checks out= and gives the array for each output, or NULL, in `outs`. They are held, as another
 * thread may change a list; ecpy_outs_release lets go, after failure too. */
int ecpy_outs_parse(ecpy_method *self, PyObject *out, PyArrayObject **outs);
void ecpy_outs_release(ecpy_method *self, PyArrayObject **outs);

/* Puts a new array for each output of fixed shape into `results`, or the one given by the caller
 * where it can be written directly. */
int ecpy_outputs_make(ecpy_method *self, PyArrayObject *const *outs, const ecpy_input *inputs,
                      PyObject **results);
/* Binds them. Fails where arrays of the caller are not what they were when they were looked at. */
ec_status ecpy_outputs_bind(ecpy_method *self, PyArrayObject *const *outs,
                            const ecpy_input *inputs, PyObject *const *results, ec_error *err);

/* Reads the other outputs into `results`. */
int ecpy_outputs_read(ecpy_method *self, PyObject **results);
/* Appends (index, array) for each input that the program has changed in place. */
int ecpy_mutated_read(ecpy_method *self, PyObject *list);

/* Copies results into the arrays of out= that could not be written directly. */
int ecpy_outs_finish(ecpy_method *self, PyArrayObject *const *outs, PyObject **results);

#endif
