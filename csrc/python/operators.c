/* Registration of operators from Python, and the list of all operators. executorch_c/_operators.py
 * checks a function's parameters. */
#include "python/state.h"

#include "python/operators.h"

#include "kernels/schema.h"
#include "python/backends.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/objects.h"
#include "python/operator_call.h"
#include "runtime/operator.h"

static void add_reference(void *user) { Py_INCREF((PyObject *)user); }
static void drop_reference(void *user) { Py_DECREF((PyObject *)user); }
static void retain_operator(void *user) { ecpy_with_gil(add_reference, user); }
static void release_operator(void *user) { ecpy_with_gil(drop_reference, user); }

/* ---- schemas ----------------------------------------------------------------------------- */

/* A schema with the memory of its names. */
typedef struct parsed {
  const char *text;
  char *names;
  ec_op op;
} parsed;

/* Parses a schema. Returns -1 with an exception; otherwise the names must be freed. */
static int parse_schema_object(ecpy_state *state, PyObject *schema, parsed *out) {
  ec_error err;
  Py_ssize_t size;
  ec_error_clear(&err);
  out->text = PyUnicode_AsUTF8AndSize(schema, &size);
  if (!out->text) return -1;
  if (strlen(out->text) != (size_t)size) {
    ecpy_raise_format(state, EC_INVALID_ARGUMENT, "schema, character %zu: a NUL",
                      strlen(out->text) + 1);
    return -1;
  }
  out->names = PyMem_Malloc((size_t)size + 1);
  if (!out->names) {
    ecpy_no_memory("the schema of an operator");
    return -1;
  }
  ec_status status = ec_schema_parse(out->text, out->names, &out->op, &err);
  if (status == EC_OK) status = ec_schema_check_custom(&out->op, &err);
  if (status == EC_OK) return 0;
  PyMem_Free(out->names);
  ecpy_raise(state, &err);
  return -1;
}

typedef enum group { POSITIONAL, KEYWORD, OUT } group;

static group group_of(const ec_arg_spec *arg) {
  return arg->is_out ? OUT : arg->keyword ? KEYWORD : POSITIONAL;
}

/* Returns the names of one group; with `outs`, of all arguments passed by keyword. */
static PyObject *names_of(const ec_op *op, group which, bool outs) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < op->nargs; i++) {
    group g = group_of(&op->args[i]);
    if (g != which && !(outs && g == OUT)) continue;
    ecpy_append(&list, PyUnicode_InternFromString(op->args[i].name));
  }
  PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return tuple;
}

PyObject *ecpy_parse_schema(ecpy_state *state, PyObject *schema) {
  parsed p;
  if (!PyUnicode_Check(schema))
    return PyErr_Format(PyExc_TypeError, "`schema` must be a str, not %.200s",
                        ecpy_type_name(schema));
  if (parse_schema_object(state, schema, &p)) return NULL;
  PyObject *result = Py_BuildValue("(s, N, N, N)", p.op.name, names_of(&p.op, POSITIONAL, false),
                                   names_of(&p.op, KEYWORD, false), names_of(&p.op, OUT, false));
  PyMem_Free(p.names);
  return result;
}

/* ---- registration ------------------------------------------------------------------------ */

static ecpy_operator *new_operator(ecpy_state *state, PyObject *fn, const ec_op *op,
                                   bool takes_outs) {
  PyObject *kwnames = names_of(op, KEYWORD, takes_outs);
  if (!kwnames) return NULL;
  if (PyTuple_GET_SIZE(kwnames) == 0) Py_CLEAR(kwnames);
  ecpy_operator *self = ecpy_new_object(state->operator_type);
  if (!self) {
    Py_XDECREF(kwnames);
    return NULL;
  }
  self->state = state;
  self->interpreter = PyInterpreterState_Get();
  self->fn = Py_NewRef(fn);
  self->kwnames = kwnames;
  self->takes_outs = takes_outs;
  return self;
}

int ecpy_register_operator(ecpy_state *state, PyObject *args) {
  PyObject *schema, *fn;
  int takes_outs, override;
  parsed p;
  ec_error err;
  ec_error_clear(&err);
  if (!PyArg_ParseTuple(args, "UOpp", &schema, &fn, &takes_outs, &override)) return -1;
  if (parse_schema_object(state, schema, &p)) return -1;
  ecpy_operator *self = new_operator(state, fn, &p.op, takes_outs != 0);
  PyMem_Free(p.names);
  if (!self) return -1;
  const ec_op_def def = {p.text, "python", ecpy_operator_kernel, self, retain_operator,
                         release_operator};
  ec_status status = ec_op_register(&def, override != 0, &err);
  Py_DECREF(self);
  if (status == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

int ecpy_unregister_operator(ecpy_state *state, PyObject *name) {
  ec_error err;
  ec_error_clear(&err);
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "`name` must be a str, not %.200s", ecpy_type_name(name));
    return -1;
  }
  const char *text = ecpy_utf8(name);
  if (!text) return -1;
  if (ec_op_unregister(text, &err) == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

static bool is_of_state(void *user, void *arg) { return ((ecpy_operator *)user)->state == arg; }

void ecpy_unregister_all(ecpy_state *state) {
  ec_op_unregister_all(ecpy_operator_kernel, is_of_state, state);
}

int ecpy_register_operators(ecpy_state *state, PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, EC_OPERATORS_CAPSULE)) {
    PyErr_Format(PyExc_TypeError, "expected a capsule named \"%s\", got %.200s",
                 EC_OPERATORS_CAPSULE, ecpy_type_name(capsule));
    return -1;
  }
  const ec_operators *operators = PyCapsule_GetPointer(capsule, EC_OPERATORS_CAPSULE);
  ec_error err;
  ec_error_clear(&err);
  if (PyList_Append(state->capsules, capsule)) return -1;
  if (ec_operators_register(operators, &err) == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

/* ---- listing ----------------------------------------------------------------------------- */

int ecpy_operator_list(ecpy_state *state, ec_op_list *list) {
  ec_error err;
  ec_error_clear(&err);
  if (ecpy_discover(state)) return -1;
  if (ec_op_list_init(list, &err) == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

/* Returns a dtype set as a tuple of NumPy's names. */
static PyObject *dtype_names(ec_dtype_set set) {
  PyObject *names = PyList_New(0);
  for (unsigned id = 0; names && id < EC_DTYPE_COUNT; id++) {
    if (!ec_dtype_in((ec_dtype)id, set)) continue;
    ecpy_append(&names, PyUnicode_FromString(ec_dtype_name((ec_dtype)id)));
  }
  PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
  Py_XDECREF(names);
  return tuple;
}

static const char *const numbers[] = {
    [EC_NUMBERS_ROUNDS] = "rounds", [EC_NUMBERS_SAME] = "same",   [EC_NUMBERS_MOVES] = "moves",
    [EC_NUMBERS_PICKS] = "picks",   [EC_NUMBERS_EXACT] = "exact", [EC_NUMBERS_SUMS] = "sums",
    [EC_NUMBERS_RANDOM] = "random",
};

/* Returns the formula for the terms of an operator's sums, or NULL. */
static const char *terms_of(const ec_op *op) {
  return op->numbers == EC_NUMBERS_SUMS ? op->terms : NULL;
}

PyObject *ecpy_operator_rows(ecpy_state *state) {
  ec_op_list list;
  if (ecpy_operator_list(state, &list)) return NULL;
  PyObject *rows = PyList_New(0);
  for (size_t i = 0; rows && i < list.count; i++) {
    const ec_op *op = list.items[i];
    ecpy_append(&rows, Py_BuildValue("{s:s, s:s, s:N, s:s, s:s, s:s, s:z, s:O}", "name", op->name,
                                     "schema", op->schema, "dtypes", dtype_names(op->dtypes),
                                     "family", op->family, "origin", op->origin, "numbers",
                                     numbers[op->numbers], "terms", terms_of(op), "joins",
                                     op->loop == EC_LOOP_NONE ? Py_False : Py_True));
  }
  ec_op_list_deinit(&list);
  return rows;
}
