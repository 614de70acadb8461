/* BackendRegistry: the backends that run delegated parts of programs. */
#include "python/state.h"

#include "python/backend_registry_type.h"

#include "backend/registry.h"
#include "core/alloc.h"
#include "python/backends.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/objects.h"
#include "python/options.h"
#include "runtime/options.h"

/* ---- documented methods ---- */

PyDoc_STRVAR(backend_registry_doc,
             "The registry of backends that are available to the runtime.\n\n"
             "`Runtime.get().backend_registry` returns it. Installed backends are found through\n"
             "the entry-point group \"executorch_c.backends\"; others can be added with\n"
             "`executorch_c.register_backend(capsule)`.");

PyDoc_STRVAR(registered_backend_names_doc,
             "The names of all registered backends, as a list of strings.");

static PyObject *backend_registry_names(PyObject *self, void *Py_UNUSED(closure)) {
  if (ecpy_discover(ecpy_state_of(self))) return NULL;
  PyObject *names = PyList_New(0);
  for (size_t i = 0; names && i < ec_backend_count(); i++) {
    ecpy_append(&names, PyUnicode_FromString(ec_backend_at(i)->id));
  }
  return names;
}

PyDoc_STRVAR(is_available_doc,
             "is_available($self, /, backend_name)\n--\n\n"
             "Return True if a backend (\"XnnpackBackend\") is registered and available.");

static PyObject *backend_registry_is_available(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"backend_name", NULL};
  const char *id;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:is_available", names, &id)) return NULL;
  if (ecpy_discover_for(ecpy_state_of(self), id)) return NULL;
  return PyBool_FromLong(ec_backend_is_available(id));
}

/* ---- options ---- */

typedef struct asked {
  const char *id;
  ec_backend_option option;
  ec_status status;
  ec_error err;
} asked;

static void run_set(void *arg) {
  asked *a = arg;
  a->status = ec_option_set(a->id, &a->option, &a->err);
}

static void run_get(void *arg) {
  asked *a = arg;
  a->status = ec_option_get(a->id, &a->option, &a->err);
}

/* Sets or reads an option. Loads plug-ins first if the backend is not registered yet. */
static int call_option(ecpy_state *state, asked *a, void (*fn)(void *arg)) {
  ec_error_clear(&a->err);
  if (ecpy_discover_for(state, a->id)) return -1;
  ecpy_without_gil(fn, a);
  PyObject *cause = ecpy_fetch_exception(); /* of a backend written in Python */
  if (a->status == EC_OK) {
    Py_XDECREF(cause);
    return 0;
  }
  ecpy_raise_from(state, &a->err, cause);
  return -1;
}

PyDoc_STRVAR(
    set_option_doc,
    "set_option($self, /, backend_name, key, value)\n--\n\n"
    "Set an option of a backend for the whole process.\n\n"
    "The value is a bool, int, float or str. option_keys() returns the names. The backend defines\n"
    "the meaning of an option, and whether it affects methods that are already loaded. For\n"
    "options of one method see load_method.\n\n"
    "Raises NotFoundError (a KeyError: no such backend or option), TypeError, NotSupportedError\n"
    "(a backend without options), and errors of the backend.");

static PyObject *backend_registry_set_option(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"backend_name", "key", "value", NULL};
  asked a = {0};
  ec_arena arena = {0};
  PyObject *key, *value;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sUO:set_option", names, &a.id, &key, &value))
    return NULL;
  int rc = ecpy_option_parse(key, value, a.id, &arena, &a.option);
  if (rc == 0) rc = call_option(ecpy_state_of(self), &a, run_set);
  ec_arena_deinit(&arena);
  return rc ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(get_option_doc,
             "get_option($self, /, backend_name, key)\n--\n\n"
             "Return the value of an option of the process. Raises the errors of set_option.");

static PyObject *backend_registry_get_option(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"backend_name", "key", NULL};
  asked a = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ss:get_option", names, &a.id, &a.option.key))
    return NULL;
  if (call_option(ecpy_state_of(self), &a, run_get)) return NULL;
  PyObject *value = ecpy_option_value(&a.option);
  if (a.option.kind == EC_BACKEND_STRING) ec_free((void *)(uintptr_t)a.option.as.string);
  return value;
}

PyDoc_STRVAR(option_keys_doc,
             "option_keys($self, /, backend_name)\n--\n\n"
             "Return the names of a backend's process options as a list of strings.\n\n"
             "Raises NotFoundError (a KeyError) if the backend is not registered.");

static PyObject *backend_registry_option_keys(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"backend_name", NULL};
  const char *id;
  const ec_backend *backend;
  ec_error err;
  ec_error_clear(&err);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:option_keys", names, &id)) return NULL;
  ecpy_state *state = ecpy_state_of(self);
  if (ecpy_discover_for(state, id)) return NULL;
  if (ec_backend_registered(id, &backend, &err) != EC_OK) return ecpy_raise(state, &err);
  const char *const *keys = EC_BACKEND_MEMBER(backend, option_keys);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && keys && keys[i]; i++) {
    ecpy_append(&list, PyUnicode_FromString(keys[i]));
  }
  return list;
}

static PyObject *backend_registry_repr(PyObject *self) {
  PyObject *names = PyObject_GetAttrString(self, "registered_backend_names");
  PyObject *text = names ? PyUnicode_FromFormat("<executorch_c.BackendRegistry: %R>", names) : NULL;
  Py_XDECREF(names);
  return text;
}

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"is_available", ECPY_KEYWORDS(backend_registry_is_available), is_available_doc},
    {"set_option", ECPY_KEYWORDS(backend_registry_set_option), set_option_doc},
    {"get_option", ECPY_KEYWORDS(backend_registry_get_option), get_option_doc},
    {"option_keys", ECPY_KEYWORDS(backend_registry_option_keys), option_keys_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"registered_backend_names", backend_registry_names, NULL, registered_backend_names_doc, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)backend_registry_doc},
    {Py_tp_repr, backend_registry_repr},
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
