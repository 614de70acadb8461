/* A call of an operator written in Python.
 *
 * A function receives its own arrays: inputs are copied in, results copied out. The next
 * instruction reuses a method's memory, and a caller's arrays may be freed, so views of either
 * could dangle in a function that keeps its arguments. */
#include "python/state.h"

#include "python/operator_call.h"

#include "core/budget.h"
#include "python/arrays.h"
#include "python/dtype.h"
#include "python/foreign.h"
#include "python/gil.h"
#include "python/objects.h"
#include "python/values.h"

/* ---- the object --------------------------------------------------------------------------- */

static int operator_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((ecpy_operator *)object)->fn);
  return 0;
}

static int operator_clear(PyObject *object) {
  Py_CLEAR(((ecpy_operator *)object)->fn);
  return 0;
}

static void operator_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  Py_CLEAR(((ecpy_operator *)object)->fn);
  Py_CLEAR(((ecpy_operator *)object)->kwnames);
  ecpy_free_object(object);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, operator_dealloc},
    {Py_tp_traverse, operator_traverse},
    {Py_tp_clear, operator_clear},
    {0, NULL},
};

PyType_Spec ecpy_operator_spec = {
    .name = "executorch_c._core._Operator",
    .basicsize = sizeof(ecpy_operator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

typedef struct calling {
  ec_call *c;
  ecpy_operator *self;
  PyObject *given[EC_MAX_OP_ARGS]; /* by argument of the schema; NULL: not passed */
  ec_status status;
} calling;

/* ---- arguments --------------------------------------------------------------------------- */

/* Returns an array for a tensor argument. An output starts as zeros, or as a copy if the old values
 * are read. */
static PyObject *tensor_object(ecpy_state *state, const ec_tensor *t, const ec_arg_spec *spec) {
  if (!spec->is_out) {
    PyObject *array = ecpy_tensor_copy(state, t);
    if (array && !spec->written) PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    return array;
  }
  PyArrayObject *array = ecpy_array_like(state, t);
  if (array) memset(PyArray_DATA(array), 0, ec_tensor_nbytes(t));
  return (PyObject *)array;
}

typedef struct item_maker {
  ecpy_state *state;
  const ec_arg_spec *spec;
} item_maker;

static PyObject *item_object(void *user, const ec_value *item) {
  const item_maker *m = user;
  if (item->kind == EC_KIND_NONE) Py_RETURN_NONE;
  if (item->kind == EC_KIND_TENSOR) return tensor_object(m->state, item->as.tensor, m->spec);
  return PyLong_FromLongLong(ec_value_int(item));
}

static PyObject *dtype_object(ecpy_state *state, int64_t id) {
  if (!ec_dtype_valid(id)) {
    PyErr_Format(PyExc_TypeError, "dtype %lld is not known", (long long)id);
    return NULL;
  }
  return Py_XNewRef((PyObject *)ecpy_descr(state, (ec_dtype)id));
}

/* Returns the number in a slot with the schema's type: slots change kind at run time. */
static ec_scalar number_of(const ec_value *v, ec_arg_type type) {
  switch (type) {
  case EC_ARG_INT: return (ec_scalar){.kind = EC_KIND_INT, .as.i = ec_value_int(v)};
  case EC_ARG_DOUBLE: return (ec_scalar){.kind = EC_KIND_DOUBLE, .as.d = ec_value_double(v)};
  case EC_ARG_BOOL: return (ec_scalar){.kind = EC_KIND_BOOL, .as.b = ec_value_bool(v)};
  default: return ec_value_scalar(v);
  }
}

static PyObject *argument_object(ecpy_state *state, const ec_value *v, const ec_arg_spec *spec) {
  const ec_arg_type type = (ec_arg_type)spec->type;
  item_maker maker = {state, spec};
  if (v->kind == EC_KIND_NONE) Py_RETURN_NONE;
  if (spec->is_list) return ecpy_list_object(state, v, item_object, &maker);
  if (type == EC_ARG_TENSOR) return tensor_object(state, v->as.tensor, spec);
  if (type == EC_ARG_STRING) return ecpy_text(v->as.string);
  if (type == EC_ARG_INT && spec->is_dtype) return dtype_object(state, ec_value_int(v));
  return ecpy_scalar_object(number_of(v, type));
}

static PyObject *call_function(calling *run) {
  ec_call *c = run->c;
  PyObject *args[EC_MAX_OP_ARGS + 1]; /* one extra in front for the callee */
  size_t n = 0, positional = 0;
  for (size_t i = 0; i < c->op->nargs; i++) {
    const ec_arg_spec *spec = &c->op->args[i];
    if (spec->is_out && !run->self->takes_outs) continue;
    run->given[i] = argument_object(run->self->state, c->args[i], spec);
    if (!run->given[i]) return NULL;
    args[1 + n++] = run->given[i];
    positional += !spec->keyword;
  }
  /* it may load and run its own program */
  if (Py_EnterRecursiveCall(" in an operator")) return NULL;
  PyObject *result = PyObject_Vectorcall(run->self->fn, args + 1,
                                         positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                         run->self->kwnames);
  Py_LeaveRecursiveCall();
  return result;
}

/* ---- results ----------------------------------------------------------------------------- */

enum { QUOTED = 128 };

/* Returns the name of an argument in quotes, for messages. */
static const char *quote_name(const calling *run, size_t i, char *out) {
  PyOS_snprintf(out, QUOTED, "'%s'", run->c->op->args[i].name);
  return out;
}

static ecpy_foreign foreign_of(const calling *run) {
  return (ecpy_foreign){run->self->state, "the function", run->c->err};
}

static ec_status store_array(calling *run, size_t i, ec_tensor *t, PyArrayObject *array) {
  ec_call *c = run->c;
  const ecpy_foreign foreign = foreign_of(run);
  char name[QUOTED];
  EC_TRY(ecpy_foreign_dtype(&foreign, quote_name(run, i, name), array, ec_tensor_dtype(t)));
  ec_status status = ec_tensor_resize(t, (size_t)PyArray_NDIM(array),
                                      (const int64_t *)PyArray_DIMS(array), c->err);
  if (status != EC_OK)
    return ec_fail_in(c->err, status, "the function returned an array for %s", name);
  return ecpy_foreign_copy(run->self->state, t, array);
}

static ec_status store_tensor(calling *run, size_t i, ec_value *v, PyObject *object) {
  const ecpy_foreign foreign = foreign_of(run);
  char name[QUOTED];
  PyArrayObject *array =
      ecpy_foreign_array(&foreign, quote_name(run, i, name), object, &run->status);
  if (!array) return run->status;
  ec_status status = store_array(run, i, v->as.tensor, array);
  Py_DECREF(array);
  return status;
}

/* Stores a function's result for an argument: an array, or one per item of a list. */
static ec_status store_argument(calling *run, size_t i, PyObject *object) {
  ec_value *v = run->c->args[i];
  if (v->kind == EC_KIND_TENSOR) return store_tensor(run, i, v, object);
  if ((!PyTuple_Check(object) && !PyList_Check(object)) ||
      PySequence_Fast_GET_SIZE(object) != (Py_ssize_t)v->count)
    return ec_fail(run->c->err, EC_INVALID_TYPE,
                   "the function returned %.100s for '%s', expected a list of %u arrays",
                   ecpy_type_name(object), run->c->op->args[i].name, v->count);
  for (uint32_t k = 0; k < v->count; k++) {
    if ((Py_ssize_t)k >= PySequence_Fast_GET_SIZE(object)) break; /* a list may change */
    PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(object, k));
    ec_status status = store_tensor(run, i, v->as.items[k], item);
    Py_DECREF(item);
    EC_TRY(status);
  }
  return EC_OK;
}

/* Stores an `out` result. None stands for the array passed to the function. */
static ec_status store_out(calling *run, size_t i, PyObject *object) {
  return store_argument(run, i, object == Py_None && run->given[i] ? run->given[i] : object);
}

static ec_status store_results(calling *run, PyObject *result) {
  const ec_op *op = run->c->op;
  size_t outs = 0, k = 0;
  for (size_t i = 0; i < op->nargs; i++) {
    outs += op->args[i].is_out;
    if (op->args[i].written && !op->args[i].is_out && run->given[i] != Py_None)
      EC_TRY(store_argument(run, i, run->given[i]));
  }
  bool none = result == Py_None && run->self->takes_outs;
  if (outs > 1 && !none &&
      (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) != (Py_ssize_t)outs))
    return ec_fail(run->c->err, EC_INVALID_TYPE,
                   "the function returned %.100s%s, expected a tuple of %zu arrays",
                   result == Py_None ? "None" : ecpy_type_name(result),
                   PyTuple_Check(result) ? " of another length" : "", outs);
  for (size_t i = 0; i < op->nargs; i++) {
    if (!op->args[i].is_out) continue;
    EC_TRY(store_out(run, i, outs == 1 || none ? result : PyTuple_GET_ITEM(result, (Py_ssize_t)k)));
    k++;
  }
  return EC_OK;
}

/* ---- the call ---------------------------------------------------------------------------- */

static ec_status run_function(calling *run) {
  if (run->self->interpreter != PyInterpreterState_Get())
    return ec_fail(run->c->err, EC_INVALID_STATE, "the function belongs to another interpreter");
  if (!run->self->fn)
    return ec_fail(run->c->err, EC_INVALID_STATE, "the function was collected as garbage");
  PyErr_Clear(); /* clears an exception of a call whose failure a backend ignored */
  PyObject *result = call_function(run);
  ec_status status = result ? store_results(run, result) : EC_INTERNAL;
  const ecpy_foreign foreign = foreign_of(run);
  if (PyErr_Occurred()) status = ecpy_foreign_raised(&foreign);
  Py_XDECREF(result);
  return status;
}

/* Runs the call. The program's budget does not apply inside the function. */
static void run_with_gil(void *arg) {
  calling *run = arg;
  ec_budget *budget = ec_budget_suspend();
  Py_INCREF((PyObject *)run->self);
  run->status = run_function(run);
  for (size_t i = 0; i < run->c->op->nargs; i++) Py_XDECREF(run->given[i]);
  Py_DECREF(run->self);
  ec_budget_resume(budget);
}

ec_status ecpy_operator_kernel(ec_call *c) {
  calling run = {.c = c, .self = c->op->user};
  ecpy_with_gil(run_with_gil, &run);
  return run.status;
}
