/* BackendRegistry: the backends that delegated parts of programs can run on. */
#include "python/state.h"

#include "backend/registry.h"
#include "python/backends.h"

/* ---- documented methods ---- */

PyDoc_STRVAR(backend_registry_doc,
             "The registry of backends that are available to the runtime.\n\n"
             "Got from `Runtime.get().backend_registry`. Installed backends are found through the\n"
             "entry-point group \"executorch_c.backends\"; others can be added with\n"
             "`executorch_c.register_backend(capsule)`.");

PyDoc_STRVAR(registered_backend_names_doc,
             "The names of all registered backends, as a list of strings.");

static PyObject *registered_backend_names(PyObject *self, void *Py_UNUSED(closure)) {
  if (ecpy_discover(ecpy_state_of(self))) return NULL;
  PyObject *names = PyList_New(0);
  for (size_t i = 0; names && i < ec_backend_count(); i++) {
    PyObject *name = PyUnicode_FromString(ec_backend_at(i)->id);
    if (!name || PyList_Append(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

PyDoc_STRVAR(is_available_doc,
             "is_available($self, /, backend_name)\n--\n\n"
             "Whether a backend (\"XnnpackBackend\") is registered and can run on this machine.");

static PyObject *is_available(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"backend_name", NULL};
  const char *id;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:is_available", names, &id)) return NULL;
  if (!ec_backend_find(id) && ecpy_discover(ecpy_state_of(self))) return NULL;
  return PyBool_FromLong(ec_backend_is_available(id));
}

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"is_available", (PyCFunction)(void (*)(void))is_available, METH_VARARGS | METH_KEYWORDS,
     is_available_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"registered_backend_names", registered_backend_names, NULL, registered_backend_names_doc,
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)backend_registry_doc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_backend_registry_spec = {
    .name = "executorch_c.BackendRegistry",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
