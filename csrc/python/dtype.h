/* The runtime's dtypes as numpy.dtype objects, and back. */
#ifndef EC_PYTHON_DTYPE_H
#define EC_PYTHON_DTYPE_H

#include "python/state.h"

/* Makes the descriptors of all dtypes that NumPy itself has. */
int ecpy_dtypes_init(ecpy_state *state);

/* Borrowed; NULL with an exception. bfloat16 is ml_dtypes.bfloat16 where that package is
 * installed, else uint16 (raw bits): the package is imported when the first one is asked for. */
PyArray_Descr *ecpy_descr(ecpy_state *state, ec_dtype dtype);

/* The dtype of an array in native byte order; false where the runtime has none. A uint16 array is
 * bfloat16 where `expected` is that and ml_dtypes is not installed. */
bool ecpy_dtype_of(ecpy_state *state, PyArray_Descr *descr, ec_dtype expected, ec_dtype *dtype);

/* Ids of dtypes in files, c10::ScalarType's, by NumPy's names: a new dict. */
PyObject *ecpy_scalar_types(void);

#endif
