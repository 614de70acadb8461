/* The extension module executorch_c._backend_xnnpack: hands the backend out as a capsule. */
#include <Python.h>

#include "xnnpack_backend.h"

PyDoc_STRVAR(backends_doc,
             "backends($module, /)\n--\n\n"
             "Return the backends of this module as capsules for "
             "executorch_c.register_backend.");

static PyObject *backends(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *capsule = PyCapsule_New((void *)&ecx_backend, EC_BACKEND_CAPSULE, NULL);
  PyObject *all = capsule ? PyTuple_Pack(1, capsule) : NULL;
  Py_XDECREF(capsule);
  return all;
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
  .m_name = "executorch_c._backend_xnnpack",
  .m_doc = "Backend XnnpackBackend.",
  .m_methods = methods,
  .m_slots = slots,
};

PyMODINIT_FUNC PyInit__backend_xnnpack(void) {
  return PyModuleDef_Init(&definition);
}
