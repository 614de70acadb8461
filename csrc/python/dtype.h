/* The runtime's dtypes as numpy.dtype objects, and the reverse. */
#ifndef EC_PYTHON_DTYPE_H
#define EC_PYTHON_DTYPE_H

#include "python/state.h"

/* Creates the descriptors of all dtypes that NumPy itself has. */
int ecpy_dtypes_init(ecpy_state *state);

/* True for bfloat16 and float8, which are the dtypes of ml_dtypes if that package is installed,
 * else uint16 and uint8 (raw bits). */
bool ecpy_is_extension(ec_dtype dtype);

/* Returns a borrowed descriptor; NULL with an exception. ml_dtypes is imported at the first request
 * of a dtype that NumPy lacks. */
PyArray_Descr *ecpy_descr(ecpy_state *state, ec_dtype dtype);

/* Finds the dtype of an array in native byte order. Returns false if the runtime does not support
 * it. Without ml_dtypes, an array of raw bits has the dtype that is expected. */
bool ecpy_dtype_of(ecpy_state *state, PyArray_Descr *descr, ec_dtype expected, ec_dtype *dtype);

/* Returns the dtype ids in files (c10::ScalarType) by NumPy's names, as a new dict. */
PyObject *ecpy_scalar_types(void);

#endif
