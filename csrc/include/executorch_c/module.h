/* The extension module of a plug-in, which exports its backends or operators as capsules. It is the
 * only file of the plug-in that needs Python:
 *
 *   #include <Python.h>
 *   #include "executorch_c/module.h"
 *   EC_BACKEND_MODULE(_my_backend, "Backend MyBackend.", &my_backend)
 *
 * `_my_backend` is the last part of the module's name. The module's function `backends` is for the
 * entry-point group "executorch_c.backends" or for executorch_c.register_backend. Operators:
 *
 *   EC_OPERATOR_MODULE(_my_operators, "Operators my::scale.out.", &my_operators)
 *
 * The function `operators` is for the entry-point group "executorch_c.operators" or for
 * executorch_c.register_operators. */
#ifndef EXECUTORCH_C_MODULE_H
#define EXECUTORCH_C_MODULE_H

#include <stddef.h>

#include "executorch_c/backend.h"
#include "executorch_c/operator.h"

#ifndef Py_PYTHON_H
#error "include <Python.h> before executorch_c/module.h"
#endif

/* Returns a tuple with a capsule for each backend. */
static inline PyObject *ec_backend_capsules(const ec_backend *const *backends, size_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)backends[i], EC_BACKEND_CAPSULE, NULL);
    if (capsule) {
      (void)PyTuple_SetItem(tuple, (Py_ssize_t)i, capsule);
    } else {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

static inline PyObject *ec_operator_capsule(const ec_operators *operators) {
  return PyCapsule_New((void *)(uintptr_t)operators, EC_OPERATORS_CAPSULE, NULL);
}

/* Returns a tuple with a capsule for each library of operators. */
static inline PyObject *ec_operator_capsules(const ec_operators *const *libraries, size_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *capsule = ec_operator_capsule(libraries[i]);
    if (capsule) {
      (void)PyTuple_SetItem(tuple, (Py_ssize_t)i, capsule);
    } else {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

/* A plug-in is stateless, so subinterpreters with their own GIL may load it. */
#if PY_VERSION_HEX >= 0x030C0000
#define EC_MODULE_INTERPRETERS                                                                     \
  {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define EC_MODULE_INTERPRETERS
#endif
#if PY_VERSION_HEX >= 0x030D0000
#define EC_MODULE_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define EC_MODULE_GIL
#endif

/* A module `name` with one function without arguments, which returns `result`. */
#define EC_MODULE(name, doc, function, function_doc, result)                                       \
  static PyObject *ec_module_##function(PyObject *module, PyObject *unused) {                      \
    (void)module;                                                                                  \
    (void)unused;                                                                                  \
    return result;                                                                                 \
  }                                                                                                \
  static PyMethodDef ec_module_functions[] = {                                                     \
      {#function, ec_module_##function, METH_NOARGS,                                               \
       #function "($module, /)\n--\n\n" function_doc},                                             \
      {NULL, NULL, 0, NULL},                                                                       \
  };                                                                                               \
  static PyModuleDef_Slot ec_module_slots[] = {EC_MODULE_INTERPRETERS EC_MODULE_GIL{0, NULL}};     \
  static struct PyModuleDef ec_module_definition = {                                               \
      .m_base = PyModuleDef_HEAD_INIT,                                                             \
      .m_name = #name,                                                                             \
      .m_doc = doc,                                                                                \
      .m_methods = ec_module_functions,                                                            \
      .m_slots = ec_module_slots,                                                                  \
  };                                                                                               \
  PyMODINIT_FUNC PyInit_##name(void) { return PyModuleDef_Init(&ec_module_definition); }

/* A module of backends: pointers to ec_backend structs. */
#define EC_BACKEND_MODULE(name, doc, ...)                                                          \
  static const ec_backend *const ec_module_all[] = {__VA_ARGS__};                                  \
  EC_MODULE(name, doc, backends,                                                                   \
            "Return the backends of this module as capsules for executorch_c.register_backend.",   \
            ec_backend_capsules(ec_module_all, sizeof ec_module_all / sizeof *ec_module_all))

/* A module of operators: the pointer to an ec_operators struct. */
#define EC_OPERATOR_MODULE(name, doc, table)                                                       \
  EC_MODULE(name, doc, operators,                                                                  \
            "Return the operators of this module as a capsule for "                                \
            "executorch_c.register_operators.",                                                    \
            ec_operator_capsule(table))

/* A module of several libraries of operators: pointers to ec_operators structs. */
#define EC_OPERATORS_MODULE(name, doc, ...)                                                        \
  static const ec_operators *const ec_module_all[] = {__VA_ARGS__};                                \
  EC_MODULE(name, doc, operators,                                                                  \
            "Return the libraries of this module as capsules for "                                 \
            "executorch_c.register_operators.",                                                    \
            ec_operator_capsules(ec_module_all, sizeof ec_module_all / sizeof *ec_module_all))

#endif
