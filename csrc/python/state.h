/* What every file of this layer needs: Python, NumPy's C API, the module's state, and the one way
 * to run C code without the GIL. */
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

#include "core/dtype.h"
#include "core/error.h"

enum {
#define EC_STATUS(name, code, sentence, pyclass, pybase) ECPY_STATUS_##name,
#include "core/status.def"
#undef EC_STATUS
  ECPY_STATUS_COUNT
};

/* Everything that a module object owns. All zero before module_exec and after module_clear. */
typedef struct ecpy_state {
  PyTypeObject *runtime_type;
  PyTypeObject *program_type;
  PyTypeObject *method_type;
  PyTypeObject *method_meta_type;
  PyTypeObject *tensor_info_type;
  PyTypeObject *backend_registry_type;
  PyTypeObject *operator_registry_type;
  PyTypeObject *operator_type;               /* what is behind an operator written in Python */
  PyObject *error_type;                      /* executorch_c.Error */
  PyObject *status_types[ECPY_STATUS_COUNT]; /* one subclass for each row of status.def */
  PyObject *runtime;                         /* what Runtime.get() gives; NULL before */
  PyObject *capsules;                        /* list: capsules of plug-ins stay alive */
  PyObject *descrs[EC_DTYPE_COUNT];          /* numpy.dtype objects; bfloat16's made when met */
  PyObject *bfloat16;                        /* ml_dtypes.bfloat16; NULL where not importable */
  PyObject *name_dlpack, *name_dlpack_device, *name_array, *name_array_interface;
  int bfloat16_looked_up;
  int discovered; /* entry points of plug-ins have been loaded */
} ecpy_state;

/* The state of the module that made a type. Our types cannot be subclassed, so this is exact. */
static inline ecpy_state *ecpy_state_of(PyObject *self) {
  return (ecpy_state *)PyType_GetModuleState(Py_TYPE(self));
}

/* The state of this thread while it has given up the GIL in ecpy_without_gil; NULL while not. */
extern _Thread_local PyThreadState *ecpy_parked;

/* Calls fn(arg) without the GIL. The only place of this layer where it is given up. */
static inline void ecpy_without_gil(void (*fn)(void *arg), void *arg) {
  ecpy_parked = PyEval_SaveThread();
  fn(arg);
  PyEval_RestoreThread(ecpy_parked);
  ecpy_parked = NULL;
}

/* Calls fn(arg) with the GIL, from inside ecpy_without_gil or from anywhere else. An exception that
 * fn leaves is the thread's when it comes out of ecpy_without_gil. */
void ecpy_with_gil(void (*fn)(void *arg), void *arg);

/* New reference to module.name(argument); argument NULL: no argument. For what is written in
 * Python: notebook tables, discovery of backends. */
PyObject *ecpy_call_python(const char *module, const char *name, PyObject *argument);

/* Makes a type of this module from a spec and adds it to the module under its name. */
int ecpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);

extern PyType_Spec ecpy_runtime_spec;
extern PyType_Spec ecpy_program_spec;
extern PyType_Spec ecpy_method_spec;
extern PyType_Spec ecpy_method_meta_spec;
extern PyType_Spec ecpy_tensor_info_spec;
extern PyType_Spec ecpy_backend_registry_spec;
extern PyType_Spec ecpy_operator_registry_spec;
extern PyType_Spec ecpy_operator_spec; /* not in the module: nobody sees one */

#endif
