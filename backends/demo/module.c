/* The extension module executorch_c._backend_demo: hands the backends out as capsules. This is all
 * that a backend needs of Python. */
#include <Python.h>

#include "demo.h"

PyDoc_STRVAR(backends_doc,
             "backends($module, /)\n--\n\n"
             "Return the backends of this module as capsules for "
             "executorch_c.register_backend.");

static PyObject *backends(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *compiler = PyCapsule_New((void *)&demo_compiler_backend, EC_BACKEND_CAPSULE, NULL);
  PyObject *executor = PyCapsule_New((void *)&demo_executor_backend, EC_BACKEND_CAPSULE, NULL);
  PyObject *both = compiler && executor ? PyTuple_Pack(2, compiler, executor) : NULL;
  Py_XDECREF(compiler);
  Py_XDECREF(executor);
  return both;
}

static PyMethodDef methods[] = {
  {"backends", backends, METH_NOARGS, backends_doc},
  {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
  {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
  {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
  {0, NULL},
};

static struct PyModuleDef definition = {
  .m_base = PyModuleDef_HEAD_INIT,
  .m_name = "executorch_c._backend_demo",
  .m_doc = "Backends BackendWithCompilerDemo and ExecutorBackend.",
  .m_methods = methods,
  .m_slots = slots,
};

PyMODINIT_FUNC PyInit__backend_demo(void) {
  return PyModuleDef_Init(&definition);
}
