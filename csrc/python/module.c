/* The extension module executorch_c._core: state, types, functions. */
#define ECPY_IMPORT_ARRAY
#include "python/state.h"

#include "python/backend_call.h"
#include "python/backend_registry_type.h"
#include "python/backends.h"
#include "python/bundled.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/kv_cache_type.h"
#include "python/method_meta_type.h"
#include "python/method_type.h"
#include "python/objects.h"
#include "python/operator_call.h"
#include "python/operator_registry_type.h"
#include "python/operators.h"
#include "python/program_type.h"
#include "python/python_backend.h"
#include "python/runtime_type.h"
#include "python/tables.h"
#include "python/tensor_info_type.h"

/* ---- functions --------------------------------------------------------------------------- */

PyDoc_STRVAR(register_backend_doc,
             "_register_backend($module, capsule, /)\n--\n\n"
             "Register a backend from a capsule named \"executorch_c.backend\".");

static PyObject *module_register_backend(PyObject *module, PyObject *capsule) {
  if (ecpy_register_backend(PyModule_GetState(module), capsule)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(register_python_backend_doc,
             "_register_python_backend($module, id, name, version, keys, adapter, override, /)\n"
             "--\n\n"
             "Register the adapter of a class (executorch_c/_python_backends.py).");

static PyObject *module_register_python_backend(PyObject *module, PyObject *args) {
  if (ecpy_register_python_backend(PyModule_GetState(module), args)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(unregister_backend_doc,
             "unregister_backend($module, id, /)\n--\n\n"
             "Unregister a backend written in Python. Loaded methods keep it. Raises\n"
             "NotFoundError (a KeyError: no such backend, or one of a plug-in in C).");

static PyObject *module_unregister_backend(PyObject *module, PyObject *id) {
  if (ecpy_unregister_backend(PyModule_GetState(module), id)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(operators_doc,
             "operators($module, /)\n--\n\n"
             "Return all operators available to programs, sorted by name.\n\n"
             "A list of dictionaries with `name` (\"aten::add.out\"), `schema`, `dtypes` (a tuple\n"
             "of NumPy's names: the dtypes of the main argument), `family`, `origin` (builtin,\n"
             "python (register_operator), or the name of a plug-in), `numbers` (what becomes of\n"
             "the numbers of its arguments; same: the first one's bytes in their order; moves:\n"
             "the first one's numbers, at other places; picks: numbers of arguments, which\n"
             "values may choose; exact: no rounding; rounds; sums; random), `terms` (the formula\n"
             "for the number of terms of its sums, or None) and `joins` (True if its loop may\n"
             "run block by block with others).");

static PyObject *module_operators(PyObject *module, PyObject *Py_UNUSED(args)) {
  return ecpy_operator_rows(PyModule_GetState(module));
}

PyDoc_STRVAR(unregister_operator_doc,
             "unregister_operator($module, name, /)\n--\n\n"
             "Unregister an operator (\"ns::name.out\"). The operator that it replaced is\n"
             "restored. Loaded methods keep it. Raises NotFoundError (a KeyError: no operator of\n"
             "this name), InvalidStateError (a built-in one).");

static PyObject *module_unregister_operator(PyObject *module, PyObject *name) {
  if (ecpy_unregister_operator(PyModule_GetState(module), name)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(register_operators_doc,
             "register_operators($module, capsule, /)\n--\n\n"
             "Register the operators of a plug-in from a capsule named\n"
             "\"executorch_c.operators\" (see executorch_c/operator.h).\n\n"
             "Registers all of them or none. Registering the same ones again is allowed. Raises\n"
             "AlreadyRegisteredError (another operator has the same name), InvalidArgumentError\n"
             "(a wrong schema, another version of the header).");

static PyObject *module_register_operators(PyObject *module, PyObject *capsule) {
  if (ecpy_register_operators(PyModule_GetState(module), capsule)) return NULL;
  Py_RETURN_NONE;
}

/* ---- for executorch_c/bundled.py ---- */

PyDoc_STRVAR(read_bundled_doc,
             "_read_bundled($module, data, /)\n--\n\n"
             "Return the contents of a .bpte: offset and size of its program, and for each method\n"
             "suite a pair of name and test cases, which are pairs of inputs and expected\n"
             "outputs. A value is a number, or for a tensor (dtype, sizes, dim_order, offset,\n"
             "size).\n\n"
             "Raises InvalidProgramError, NotSupportedError (a dtype, more than 16 dimensions).");

static PyObject *module_read_bundled(PyObject *module, PyObject *data) {
  return ecpy_read_bundled(PyModule_GetState(module), data);
}

PyDoc_STRVAR(file_tables_doc,
             "_file_tables($module, kind, /)\n--\n\n"
             "The schema of a kind of file (\"pte\", \"ptd\", \"bpte\", \"etdump\") as\n"
             "_flatbuffers.py understands it: {table: {field: type}}, fields in the order of\n"
             "their numbers.");

static PyObject *module_file_tables(PyObject *Py_UNUSED(module), PyObject *kind) {
  return ecpy_file_tables(kind);
}

PyDoc_STRVAR(check_etdump_doc,
             "_check_etdump($module, data, /)\n--\n\n"
             "Check the structure of an ETDump, so that _flatbuffers.read may read it, and return\n"
             "start and end of its tables.\n\n"
             "Raises InvalidExternalDataError.");

static PyObject *module_check_etdump(PyObject *module, PyObject *data) {
  return ecpy_check_etdump(PyModule_GetState(module), data);
}

PyDoc_STRVAR(scalar_types_doc,
             "_scalar_types($module, /)\n--\n\n"
             "Return the dtype ids in files (c10::ScalarType) by NumPy's names.");

static PyObject *module_scalar_types(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) {
  return ecpy_scalar_types();
}

/* ---- for executorch_c/_operators.py ---- */

PyDoc_STRVAR(parse_schema_doc,
             "_parse_schema($module, schema, /)\n--\n\n"
             "Return an out variant's name, and its positional, keyword-only and out arguments.");

static PyObject *module_parse_schema(PyObject *module, PyObject *schema) {
  return ecpy_parse_schema(PyModule_GetState(module), schema);
}

PyDoc_STRVAR(register_operator_doc,
             "_register_operator($module, schema, fn, takes_outs, override, /)\n--\n\n"
             "Register a function with checked parameters.");

static PyObject *module_register_operator(PyObject *module, PyObject *args) {
  if (ecpy_register_operator(PyModule_GetState(module), args)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(unregister_all_doc,
             "_unregister_all($module, /)\n--\n\n"
             "Unregister all Python operators and backends, at the end of the interpreter.");

static PyObject *module_unregister_all(PyObject *module, PyObject *Py_UNUSED(args)) {
  ecpy_unregister_all(PyModule_GetState(module));
  ecpy_unregister_python_backends(PyModule_GetState(module));
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_register_backend", module_register_backend, METH_O, register_backend_doc},
    {"_register_python_backend", module_register_python_backend, METH_VARARGS,
     register_python_backend_doc},
    {"unregister_backend", module_unregister_backend, METH_O, unregister_backend_doc},
    {"operators", module_operators, METH_NOARGS, operators_doc},
    {"register_operators", module_register_operators, METH_O, register_operators_doc},
    {"unregister_operator", module_unregister_operator, METH_O, unregister_operator_doc},
    {"_read_bundled", module_read_bundled, METH_O, read_bundled_doc},
    {"_file_tables", module_file_tables, METH_O, file_tables_doc},
    {"_check_etdump", module_check_etdump, METH_O, check_etdump_doc},
    {"_scalar_types", module_scalar_types, METH_NOARGS, scalar_types_doc},
    {"_parse_schema", module_parse_schema, METH_O, parse_schema_doc},
    {"_register_operator", module_register_operator, METH_VARARGS, register_operator_doc},
    {"_unregister_all", module_unregister_all, METH_NOARGS, unregister_all_doc},
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
      {&ecpy_backend_call_spec, &state->backend_call_type},
      {&ecpy_operator_registry_spec, &state->operator_registry_type},
      {&ecpy_kv_cache_spec, &state->kv_cache_type},
  };
  state->operator_type =
      (PyTypeObject *)PyType_FromModuleAndSpec(module, &ecpy_operator_spec, NULL);
  if (!state->operator_type) return -1;
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
  Py_VISIT(state->backend_call_type);
  Py_VISIT(state->operator_registry_type);
  Py_VISIT(state->kv_cache_type);
  Py_VISIT(state->operator_type);
  Py_VISIT(state->error_type);
  for (size_t i = 0; i < ECPY_STATUS_COUNT; i++) Py_VISIT(state->status_types[i]);
  Py_VISIT(state->runtime);
  Py_VISIT(state->capsules);
  for (size_t i = 0; i < EC_DTYPE_COUNT; i++) Py_VISIT(state->descrs[i]);
  for (size_t i = 0; i < EC_DTYPE_COUNT; i++) Py_VISIT(state->extensions[i]);
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
  Py_CLEAR(state->backend_call_type);
  Py_CLEAR(state->operator_registry_type);
  Py_CLEAR(state->kv_cache_type);
  Py_CLEAR(state->operator_type);
  Py_CLEAR(state->error_type);
  for (size_t i = 0; i < ECPY_STATUS_COUNT; i++) Py_CLEAR(state->status_types[i]);
  Py_CLEAR(state->runtime);
  Py_CLEAR(state->capsules);
  for (size_t i = 0; i < EC_DTYPE_COUNT; i++) Py_CLEAR(state->descrs[i]);
  for (size_t i = 0; i < EC_DTYPE_COUNT; i++) Py_CLEAR(state->extensions[i]);
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
