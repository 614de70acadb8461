/* The runtime's dtypes as numpy.dtype objects, and the reverse. */
#ifndef EC_PYTHON_DTYPE_H
#define EC_PYTHON_DTYPE_H

#include "python/state.h"

/* Creates the descriptors of all dtypes that NumPy itself has. */
int ecpy_dtypes_init(ecpy_state *state);

/* Returns a borrowed descriptor; NULL with an exception. bfloat16 is ml_dtypes.bfloat16 if that
 * package is installed, else uint16 (raw bits). The package is imported at the first request. */
PyArray_Descr *ecpy_descr(ecpy_state *state, ec_dtype dtype);

/* Finds the dtype of an array in native byte order. Returns false if the runtime does not support
 * it. A uint16 array is bfloat16 if `expected` is bfloat16 and ml_dtypes is not installed. */
bool ecpy_dtype_of(ecpy_state *state, PyArray_Descr *descr, ec_dtype expected, ec_dtype *dtype);

/* Returns the dtype ids in files (c10::ScalarType) by NumPy's names, as a new dict. */
PyObject *ecpy_scalar_types(void);

#endif
