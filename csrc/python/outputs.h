/* Outputs of a call: new arrays that own their memory, or the caller's. */
#ifndef EC_PYTHON_OUTPUTS_H
#define EC_PYTHON_OUTPUTS_H

#include "python/inputs.h"
#include "python/method.h"
#include "python/state.h"

/* Checks out= and sets `outs` to the array for each output, or NULL. The arrays are held, because
 * another thread may change a list; ecpy_outs_release releases them, also after a failure. */
int ecpy_outs_parse(ecpy_method *self, PyObject *out, PyArrayObject **outs);
void ecpy_outs_release(ecpy_method *self, PyArrayObject **outs);

/* Sets `results` to a new array for each output of static shape, or to the caller's array if it can
 * be written directly. */
int ecpy_outputs_make(ecpy_method *self, PyArrayObject *const *outs, const ecpy_input *inputs,
                      PyObject **results);
/* Binds the arrays. Fails if the caller's arrays have changed since they were checked. */
ec_status ecpy_outputs_bind(ecpy_method *self, PyArrayObject *const *outs,
                            const ecpy_input *inputs, PyObject *const *results, ec_error *err);

/* Reads the other outputs into `results`. */
int ecpy_outputs_read(ecpy_method *self, PyObject **results);
/* Appends (index, array) for each input that the program changed in place. */
int ecpy_mutated_read(ecpy_method *self, PyObject *list);

/* Copies results to the arrays of out= that could not be written directly. */
int ecpy_outs_finish(ecpy_method *self, PyArrayObject *const *outs, PyObject **results);

#endif
