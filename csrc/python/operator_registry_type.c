/* OperatorRegistry: the operators with kernels in this runtime. */
#include "python/state.h"

#include "python/operator_registry_type.h"

#include "python/operators.h"

/* ---- documented methods ---- */

PyDoc_STRVAR(operator_registry_doc,
             "The registry of operators that programs can call.\n\n"
             "`Runtime.get().operator_registry` returns it. `executorch_c.operators()` also\n"
             "returns schemas, dtypes, families and origins; `executorch_c.register_operator`\n"
             "adds an operator.");

PyDoc_STRVAR(operator_names_doc,
             "The names of all operators (\"aten::add.out\"), as a new set of strings.");

static PyObject *operator_registry_operator_names(PyObject *self, void *Py_UNUSED(closure)) {
  ec_op_list list;
  if (ecpy_operator_list(ecpy_state_of(self), &list)) return NULL;
  PyObject *names = PySet_New(NULL);
  for (size_t i = 0; names && i < list.count; i++) {
    PyObject *name = PyUnicode_FromString(list.items[i]->name);
    if (!name || PySet_Add(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  ec_op_list_deinit(&list);
  return names;
}

static PyObject *operator_registry_repr(PyObject *self) {
  ec_op_list list;
  if (ecpy_operator_list(ecpy_state_of(self), &list)) return NULL;
  size_t count = list.count;
  ec_op_list_deinit(&list);
  return PyUnicode_FromFormat("<executorch_c.OperatorRegistry: %zu operators>", count);
}

/* ---- tables and spec ---- */

static PyGetSetDef getset[] = {
    {"operator_names", operator_registry_operator_names, NULL, operator_names_doc, NULL},
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
