/* One call of a method: prepare inputs, lock, bind, execute without the GIL, read, unlock. */
#include "python/state.h"

#include "python/call.h"

#include "python/errors.h"
#include "python/gil.h"
#include "python/inputs.h"
#include "python/interrupt.h"
#include "python/method.h"
#include "python/outputs.h"

/* Calls with few values need no heap memory for them. */
enum { INLINE_VALUES = 16 };

typedef struct call {
  ecpy_method *method;
  ecpy_input *inputs;
  PyArrayObject **outs; /* NULL without out= */
  PyObject **results;   /* strong: the items of the returned list or tuple */
  PyObject *mutated;    /* borrowed: a list for inputs changed in place; NULL: not requested */
  ec_status status;
  PyObject *cause; /* an exception of a Python operator */
  ecpy_interrupt interrupt;
  ec_error err;
  ecpy_input inline_inputs[INLINE_VALUES];
  PyArrayObject *inline_outs[INLINE_VALUES];
  PyObject *inline_results[INLINE_VALUES];
} call;

static void execute_call(void *arg) {
  call *c = arg;
  c->status = ec_method_execute(c->method->method, &c->err);
}

/* Binds and executes. No Python object is created between binding and execution: that could run any
 * code, which could reallocate the arrays. */
static int bind_and_execute(call *c) {
  ecpy_method *self = c->method;
  c->status = ecpy_inputs_bind(self, c->inputs, &c->err);
  if (c->status == EC_OK)
    c->status = ecpy_outputs_bind(self, c->outs, c->inputs, c->results, &c->err);
  if (c->status != EC_OK) return -1;
  ecpy_without_gil(execute_call, c);
  /* a backend may ignore the failure of its program */
  if (c->interrupt.exception) c->status = EC_INTERNAL;
  if (PyErr_Occurred()) {
    if (c->status == EC_OK) PyErr_Clear();
    else c->cause = ecpy_fetch_exception();
  }
  return c->status == EC_OK ? 0 : -1;
}

/* Runs the code between lock and unlock. Returns -1 with an exception, or with a status in `c`. */
static int run_locked(call *c) {
  ecpy_method *self = c->method;
  ec_budget budget;
  ec_method_budget(self->method, &c->interrupt.asked, &budget);
  ec_budget_enter(&budget);
  int rc = ecpy_outputs_make(self, c->outs, c->inputs, c->results);
  if (rc == 0) rc = bind_and_execute(c);
  if (rc == 0) rc = ecpy_outputs_read(self, c->results);
  if (rc == 0 && c->mutated) rc = ecpy_mutated_read(self, c->mutated);
  ec_budget_leave(&budget);
  ec_budget_explain(&budget, c->status, &c->err);
  return rc;
}

/* Raises the failure. Exceptions are created after unlocking, because that may run any code. */
static void raise_failure(call *c) {
  if (ecpy_interrupt_raise(&c->interrupt)) Py_CLEAR(c->cause);
  else if (c->status != EC_OK && !PyErr_Occurred())
    ecpy_raise_from(c->method->state, &c->err, c->cause);
}

/* Runs a call with prepared inputs and NULL results. */
static int run_call(call *c) {
  if (ecpy_method_lock(c->method)) return -1;
  c->status = EC_OK;
  c->cause = NULL;
  ec_error_clear(&c->err);
  ecpy_interrupt_init(&c->interrupt);
  int rc = run_locked(c);
  ecpy_method_unlock(c->method);
  if (rc) raise_failure(c);
  if (rc == 0 && c->outs) rc = ecpy_outs_finish(c->method, c->outs, c->results);
  return rc;
}

/* Returns the results, after all of them are complete. */
static PyObject *release_results(call *c, bool as_tuple) {
  const Py_ssize_t count = (Py_ssize_t)c->method->output_count;
  PyObject *all = as_tuple ? PyTuple_New(count) : PyList_New(count);
  for (Py_ssize_t i = 0; all && i < count; i++) {
    if (as_tuple) PyTuple_SET_ITEM(all, i, c->results[i]);
    else PyList_SET_ITEM(all, i, c->results[i]);
    c->results[i] = NULL;
  }
  return all;
}

static PyObject *run_into_new(call *c, bool as_tuple) {
  const size_t count = c->method->output_count;
  for (size_t i = 0; i < count; i++) c->results[i] = NULL;
  PyObject *all = run_call(c) ? NULL : release_results(c, as_tuple);
  for (size_t i = 0; !all && i < count; i++) Py_CLEAR(c->results[i]);
  return all;
}

/* Allocates memory for the values of a call; up to INLINE_VALUES are stored inside the call. */
static int alloc_call(call *c) {
  ecpy_method *self = c->method;
  if (self->input_count > INLINE_VALUES) {
    c->inputs = PyMem_New(ecpy_input, self->input_count);
    if (!c->inputs) return -1;
  }
  if (self->output_count > INLINE_VALUES) {
    c->results = PyMem_New(PyObject *, self->output_count);
    if (!c->results) return -1;
  }
  if (c->outs && self->output_count > INLINE_VALUES) {
    c->outs = PyMem_New(PyArrayObject *, self->output_count);
    if (!c->outs) return -1;
  }
  return 0;
}

static void free_call(call *c) {
  if (c->inputs != c->inline_inputs) PyMem_Free(c->inputs);
  if (c->outs != c->inline_outs) PyMem_Free(c->outs);
  if (c->results != c->inline_results) PyMem_Free(c->results);
}

static PyObject *run_all(ecpy_method *self, PyObject *const *items, size_t count, PyObject *out,
                         bool as_tuple, PyObject *mutated) {
  call c; /* not zeroed, for speed */
  c.method = self;
  c.inputs = c.inline_inputs;
  c.outs = out ? c.inline_outs : NULL;
  c.results = c.inline_results;
  c.mutated = mutated;
  PyObject *result = NULL;
  if (alloc_call(&c)) {
    ecpy_no_memory("the values of a call");
  } else {
    int rc = out ? ecpy_outs_parse(self, out, c.outs) : 0;
    if (rc == 0) {
      if (ecpy_inputs_prepare(self, items, count, c.inputs) == 0)
        result = run_into_new(&c, as_tuple);
      ecpy_inputs_release(c.inputs, self->input_count);
    }
    if (out) ecpy_outs_release(self, c.outs);
  }
  free_call(&c);
  return result;
}

PyObject *ecpy_method_run(ecpy_method *self, PyObject *const *items, size_t count, PyObject *out,
                          bool as_tuple) {
  return run_all(self, items, count, out, as_tuple, NULL);
}

PyObject *ecpy_method_run_mutating(ecpy_method *self, PyObject *const *items, size_t count) {
  PyObject *mutated = PyList_New(0);
  PyObject *results = mutated ? run_all(self, items, count, NULL, false, mutated) : NULL;
  PyObject *both = results ? PyTuple_Pack(2, results, mutated) : NULL;
  Py_XDECREF(results);
  Py_XDECREF(mutated);
  return both;
}
