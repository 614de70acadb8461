/* OperatorRegistry: the operators that this runtime has kernels for. */
#include "python/state.h"

#include "kernels/op.h"

/* ---- documented methods ---- */

PyDoc_STRVAR(operator_registry_doc,
             "The registry of operators that the runtime has kernels for.\n\n"
             "Got from `Runtime.get().operator_registry`. `executorch_c.operators()` has schemas,\n"
             "dtypes and families too.");

PyDoc_STRVAR(operator_names_doc,
             "The names of all operators (\"aten::add.out\"), as a new set of strings.");

static PyObject *operator_names(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure)) {
  PyObject *names = PySet_New(NULL);
  for (size_t i = 0; names && i < ec_op_count(); i++) {
    PyObject *name = PyUnicode_FromString(ec_op_at(i)->name);
    if (!name || PySet_Add(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

static PyObject *operator_registry_repr(PyObject *Py_UNUSED(self)) {
  return PyUnicode_FromFormat("<executorch_c.OperatorRegistry: %zu operators>", ec_op_count());
}

/* ---- tables and spec ---- */

static PyGetSetDef getset[] = {
    {"operator_names", operator_names, NULL, operator_names_doc, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)operator_registry_doc},
    {Py_tp_repr, operator_registry_repr},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_operator_registry_spec = {
    .name = "executorch_c.OperatorRegistry",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
