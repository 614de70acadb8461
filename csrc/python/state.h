/* Python, NumPy's C API and the module's state. Every file of this layer includes it first. */
#ifndef EC_PYTHON_STATE_H
#define EC_PYTHON_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_1_25_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ecpy_array_api
#ifndef ECPY_IMPORT_ARRAY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include "python/stable.h"

#include "core/dtype.h"
#include "core/error.h"

enum {
#define EC_STATUS(name, code, sentence, pyclass, pybase) ECPY_STATUS_##name,
#include "core/status.def"
#undef EC_STATUS
  ECPY_STATUS_COUNT
};

/* Entry points of plug-ins that have been loaded: none; XNNPACK's and those of other packages,
 * which may take kernel calls at load; all (executorch_c/_backends.py). */
typedef enum ecpy_stage { ECPY_FOUND_NONE, ECPY_FOUND_FIRST, ECPY_FOUND_ALL } ecpy_stage;

/* The state owned by a module object. All zero before module_exec and after module_clear. */
typedef struct ecpy_state {
  PyTypeObject *runtime_type;
  PyTypeObject *program_type;
  PyTypeObject *method_type;
  PyTypeObject *method_meta_type;
  PyTypeObject *tensor_info_type;
  PyTypeObject *backend_registry_type;
  PyTypeObject *backend_call_type;
  PyTypeObject *operator_registry_type;
  PyTypeObject *kv_cache_type;
  PyTypeObject *operator_type;               /* of the functions of Python operators */
  PyObject *error_type;                      /* executorch_c.Error */
  PyObject *status_types[ECPY_STATUS_COUNT]; /* one subclass for each row of status.def */
  PyObject *runtime;                         /* the result of Runtime.get(); NULL before */
  PyObject *capsules;                        /* list: keeps capsules of plug-ins alive */
  PyObject *descrs[EC_DTYPE_COUNT];          /* numpy.dtype objects; ml_dtypes' at first use */
  PyObject *extensions[EC_DTYPE_COUNT];      /* scalar types of ml_dtypes; NULL if it is missing */
  PyObject *name_dlpack, *name_dlpack_device, *name_array, *name_array_interface;
  int extensions_looked_up;
  ecpy_stage discovered;
} ecpy_state;

/* Returns the state of the module that created a type. Exact, because our types cannot be
 * subclassed. */
static inline ecpy_state *ecpy_state_of(PyObject *self) {
  return (ecpy_state *)PyType_GetModuleState(Py_TYPE(self));
}

#endif
