/* DLPack: arrays of other libraries (PyTorch, JAX, CuPy on the CPU) without importing them. */
#ifndef EC_PYTHON_DLPACK_H
#define EC_PYTHON_DLPACK_H

#include "python/state.h"

/* Returns a read-only array on the memory of an object with __dlpack__, which the array keeps
 * alive. Returns NULL with an exception: the object's own, BufferError (not in CPU memory), or
 * TypeError (dtype). */
PyObject *ecpy_from_dlpack(ecpy_state *state, PyObject *object);

#endif
