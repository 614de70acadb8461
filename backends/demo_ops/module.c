/* The extension module executorch_c._backend_demo_ops: hands the operators out as a capsule. This
 * is all that operators need of Python. */
#include <Python.h>

#include "operators.h"

PyDoc_STRVAR(operators_doc,
             "operators($module, /)\n--\n\n"
             "Return the operators of this module as a capsule for "
             "executorch_c.register_operators.");

static PyObject *operators(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyCapsule_New((void *)&demo_operators, EC_OPERATORS_CAPSULE, NULL);
}

static PyMethodDef methods[] = {
  {"operators", operators, METH_NOARGS, operators_doc},
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
  .m_name = "executorch_c._backend_demo_ops",
  .m_doc = "Operators demo::scale.out and demo::positive.out.",
  .m_methods = methods,
  .m_slots = slots,
};

PyMODINIT_FUNC PyInit__backend_demo_ops(void) {
  return PyModuleDef_Init(&definition);
}
