/* The extension module executorch_c._core: state, types, functions. */
#define ECPY_IMPORT_ARRAY
#include "python/state.h"

#include "kernels/op.h"
#include "python/backends.h"
#include "python/dtype.h"
#include "python/errors.h"

PyObject *ecpy_call_python(const char *module, const char *name, PyObject *argument) {
  PyObject *imported = PyImport_ImportModule(module);
  PyObject *function = imported ? PyObject_GetAttrString(imported, name) : NULL;
  Py_XDECREF(imported);
  if (!function) return NULL;
  PyObject *result = argument ? PyObject_CallOneArg(function, argument)
                              : PyObject_CallNoArgs(function);
  Py_DECREF(function);
  return result;
}

int ecpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot) {
  *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
  return *slot ? PyModule_AddType(module, *slot) : -1;
}

/* ---- functions --------------------------------------------------------------------------- */

PyDoc_STRVAR(register_backend_doc,
             "register_backend($module, capsule, /)\n--\n\n"
             "Registers a backend, given as a capsule named \"executorch_c.backend\".\n\n"
             "Registering the same backend again is allowed. Raises AlreadyRegisteredError where\n"
             "another backend has its name, InvalidArgumentError where it was built for another\n"
             "version of executorch_c/backend.h.");

static PyObject *register_backend(PyObject *module, PyObject *capsule) {
  if (ecpy_register_backend(PyModule_GetState(module), capsule)) return NULL;
  Py_RETURN_NONE;
}

/* The names of a dtype set, as a tuple of NumPy's names. */
static PyObject *dtype_names(ec_dtype_set set) {
  PyObject *names = PyList_New(0);
  for (unsigned id = 0; names && id < EC_DTYPE_COUNT; id++) {
    if (!ec_dtype_in((ec_dtype)id, set)) continue;
    PyObject *name = PyUnicode_FromString(ec_dtype_name((ec_dtype)id));
    if (!name || PyList_Append(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
  Py_XDECREF(names);
  return tuple;
}

PyDoc_STRVAR(operators_doc,
             "operators($module, /)\n--\n\n"
             "All operators that the runtime has kernels for, sorted by name.\n\n"
             "A list of dictionaries with `name` (\"aten::add.out\"), `schema`, `dtypes` (a tuple\n"
             "of NumPy's names: what the main argument may have) and `family`.");

static PyObject *operators(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) {
  PyObject *rows = PyList_New(0);
  for (size_t i = 0; rows && i < ec_op_count(); i++) {
    const ec_op *op = ec_op_at(i);
    PyObject *row = Py_BuildValue("{s:s, s:s, s:N, s:s}", "name", op->name, "schema", op->schema,
                                  "dtypes", dtype_names(op->dtypes), "family", op->family);
    if (!row || PyList_Append(rows, row)) Py_CLEAR(rows);
    Py_XDECREF(row);
  }
  return rows;
}

static PyMethodDef functions[] = {
    {"register_backend", register_backend, METH_O, register_backend_doc},
    {"operators", operators, METH_NOARGS, operators_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- lifecycle --------------------------------------------------------------------------- */

static int add_types(PyObject *module, ecpy_state *state) {
  struct {
    PyType_Spec *spec;
    PyTypeObject **slot;
  } types[] = {
      {&ecpy_runtime_spec, &state->runtime_type},
      {&ecpy_program_spec, &state->program_type},
      {&ecpy_method_spec, &state->method_type},
      {&ecpy_method_meta_spec, &state->method_meta_type},
      {&ecpy_tensor_info_spec, &state->tensor_info_type},
      {&ecpy_backend_registry_spec, &state->backend_registry_type},
      {&ecpy_operator_registry_spec, &state->operator_registry_type},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (ecpy_add_type(module, types[i].spec, types[i].slot)) return -1;
  return 0;
}

static int intern_names(ecpy_state *state) {
  state->name_dlpack = PyUnicode_InternFromString("__dlpack__");
  state->name_dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
  state->name_array = PyUnicode_InternFromString("__array__");
  state->name_array_interface = PyUnicode_InternFromString("__array_interface__");
  state->capsules = PyList_New(0);
  return state->name_dlpack && state->name_dlpack_device && state->name_array &&
                 state->name_array_interface && state->capsules
             ? 0
             : -1;
}

static int module_exec(PyObject *module) {
  ecpy_state *state = PyModule_GetState(module);
  import_array1(-1);
  if (intern_names(state) || ecpy_dtypes_init(state)) return -1;
  if (ecpy_errors_init(module, state)) return -1;
  ec_error err;
  ec_error_clear(&err);
  if (ec_ops_init(&err) != EC_OK) {
    ecpy_raise(state, &err);
    return -1;
  }
  return add_types(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  ecpy_state *state = PyModule_GetState(module);
  Py_VISIT(state->runtime_type);
  Py_VISIT(state->program_type);
  Py_VISIT(state->method_type);
  Py_VISIT(state->method_meta_type);
  Py_VISIT(state->tensor_info_type);
  Py_VISIT(state->backend_registry_type);
  Py_VISIT(state->operator_registry_type);
  Py_VISIT(state->error_type);
  for (size_t i = 0; i < ECPY_STATUS_COUNT; i++) Py_VISIT(state->status_types[i]);
  Py_VISIT(state->runtime);
  Py_VISIT(state->capsules);
  for (size_t i = 0; i < EC_DTYPE_COUNT; i++) Py_VISIT(state->descrs[i]);
  Py_VISIT(state->bfloat16);
  return 0;
}

static int module_clear(PyObject *module) {
  ecpy_state *state = PyModule_GetState(module);
  Py_CLEAR(state->runtime_type);
  Py_CLEAR(state->program_type);
  Py_CLEAR(state->method_type);
  Py_CLEAR(state->method_meta_type);
  Py_CLEAR(state->tensor_info_type);
  Py_CLEAR(state->backend_registry_type);
  Py_CLEAR(state->operator_registry_type);
  Py_CLEAR(state->error_type);
  for (size_t i = 0; i < ECPY_STATUS_COUNT; i++) Py_CLEAR(state->status_types[i]);
  Py_CLEAR(state->runtime);
  Py_CLEAR(state->capsules);
  for (size_t i = 0; i < EC_DTYPE_COUNT; i++) Py_CLEAR(state->descrs[i]);
  Py_CLEAR(state->bfloat16);
  Py_CLEAR(state->name_dlpack);
  Py_CLEAR(state->name_dlpack_device);
  Py_CLEAR(state->name_array);
  Py_CLEAR(state->name_array_interface);
  return 0;
}

static void module_free(void *module) { module_clear(module); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "The C part of executorch_c; import executorch_c instead.");

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "executorch_c._core",
    .m_doc = module_doc,
    .m_size = sizeof(ecpy_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
