/* One call of a method: prepare inputs, lock, bind, execute without the GIL, read, unlock. */
#include "python/state.h"

#include "python/method.h"

#include "python/errors.h"

/* Calls with few values need no memory for them. */
enum { FEW = 16 };

typedef struct call {
  ecpy_method *method;
  ecpy_input *inputs;
  PyArrayObject **outs; /* NULL without out= */
  PyObject **results;   /* items of the list or tuple that comes back */
  ec_status status;
  PyObject *cause; /* what an operator in Python raised */
  ec_error err;
  ecpy_input few_inputs[FEW];
  PyArrayObject *few_outs[FEW];
} call;

typedef struct waiting {
  ec_method *method;
  bool locked;
} waiting;

static void wait_for_lock(void *arg) {
  waiting *w = arg;
  w->locked = ec_method_lock(w->method);
}

int ecpy_method_lock(ecpy_method *self) {
  waiting w = {self->method, ec_method_try_lock(self->method)};
  if (!w.locked) ecpy_without_gil(wait_for_lock, &w);
  if (w.locked) return 0;
  ecpy_raise_format(self->state, EC_INVALID_STATE, "method '%s' is running in this thread, or one "
                    "that shares memory with it", ec_method_name(self->method));
  return -1;
}

void ecpy_method_unlock(ecpy_method *self) { ec_method_unlock(self->method); }

static void execute(void *arg) {
  call *c = arg;
  c->status = ec_method_execute(c->method->method, &c->err);
}

/* Everything between lock and unlock. -1 with an exception, or with a status in `c`. */
static int run_locked(call *c) {
  ecpy_method *self = c->method;
  c->status = ecpy_inputs_bind(self, c->inputs, &c->err);
  if (c->status != EC_OK) return -1;
  c->err.status = EC_OK;
  if (ecpy_outputs_bind(self, c->outs, c->inputs, c->results, &c->err)) {
    c->status = c->err.status;
    return -1;
  }
  ecpy_without_gil(execute, c);
  if (PyErr_Occurred()) {
    if (c->status == EC_OK) PyErr_Clear(); /* a backend went on without its nested program */
    else c->cause = ecpy_take_exception();
  }
  if (c->status != EC_OK) return -1;
  return ecpy_outputs_read(self, c->results);
}

/* Inputs are prepared; results are NULL. Exceptions are made after unlocking, because making them
 * may run any code. */
static int run(call *c) {
  if (ecpy_method_lock(c->method)) return -1;
  c->status = EC_OK;
  c->cause = NULL;
  int rc = run_locked(c);
  ecpy_method_unlock(c->method);
  if (c->status != EC_OK && !PyErr_Occurred())
    ecpy_raise_from(c->method->state, &c->err, c->cause);
  if (rc == 0 && c->outs) rc = ecpy_outs_finish(c->method, c->outs, c->results);
  return rc;
}

static PyObject *run_into_new(call *c, bool as_tuple) {
  Py_ssize_t count = (Py_ssize_t)c->method->output_count;
  PyObject *all = as_tuple ? PyTuple_New(count) : PyList_New(count);
  if (!all) return NULL;
  c->results = PySequence_Fast_ITEMS(all);
  if (run(c)) Py_CLEAR(all);
  return all;
}

/* Memory for the values of a call; what FEW can hold is already there. */
static int reserve(call *c) {
  ecpy_method *self = c->method;
  if (self->input_count > FEW) {
    c->inputs = PyMem_New(ecpy_input, self->input_count);
    if (!c->inputs) return -1;
  }
  if (c->outs && self->output_count > FEW) {
    c->outs = PyMem_New(PyArrayObject *, self->output_count);
    if (!c->outs) return -1;
  }
  return 0;
}

static void release(call *c) {
  if (c->inputs != c->few_inputs) PyMem_Free(c->inputs);
  if (c->outs != c->few_outs) PyMem_Free(c->outs);
}

PyObject *ecpy_method_run(ecpy_method *self, PyObject *const *items, size_t count, PyObject *out,
                          bool as_tuple) {
  call c; /* not zeroed: a call is to cost little */
  c.method = self;
  c.inputs = c.few_inputs;
  c.outs = out ? c.few_outs : NULL;
  PyObject *result = NULL;
  if (reserve(&c)) {
    PyErr_NoMemory();
  } else {
    int rc = out ? ecpy_outs_parse(self, out, c.outs) : 0;
    if (rc == 0) {
      if (ecpy_inputs_prepare(self, items, count, c.inputs) == 0)
        result = run_into_new(&c, as_tuple);
      ecpy_inputs_release(c.inputs, self->input_count);
    }
    if (out) ecpy_outs_release(self, c.outs);
  }
  release(&c);
  return result;
}
