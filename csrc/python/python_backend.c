/* Backends written in Python.
 *
 * Each id has one slot, which is never freed: methods and other threads may refer to its
 * ec_backend at any time. Unregistered, it has no adapter. Loaded delegates own their objects, so
 * they run as before. As for operators (operator_call.c), functions receive copies of inputs. */
#include "python/state.h"

#include "python/python_backend.h"

#include "backend/registry.h"
#include "core/budget.h"
#include "core/value.h"
#include "python/arrays.h"
#include "python/backend_call.h"
#include "python/errors.h"
#include "python/foreign.h"
#include "python/gil.h"
#include "python/objects.h"
#include "python/options.h"
#include "runtime/host_call.h"

enum { NAME = 96 };

typedef struct slot {
  ec_backend base; /* its `user` is the slot */
  ecpy_state *state;
  PyInterpreterState *interpreter;
  PyObject *adapter; /* NULL: not registered */
  PyObject *text;    /* the last string option that was read */
  char name[NAME];   /* of the class, for messages */
  struct slot *next;
} slot;

/* A delegate. */
typedef struct handle {
  ecpy_state *state;
  PyInterpreterState *interpreter;
  PyObject *object;
  Py_ssize_t outputs; /* -1: as the host counts them */
  char name[NAME];
} handle;

static slot *slots; /* guarded by the GIL */

/* One call of a function of the class. */
typedef struct calling {
  slot *self;
  const ec_host *host;
  ec_host_call *call;
  const ec_backend_init *what;
  handle *delegate;
  ec_backend_arg *args;
  size_t count;
  ec_backend_option *option;
  ec_status status;
} calling;

static ec_status check_interpreter(const calling *c, PyInterpreterState *interpreter) {
  if (interpreter == PyInterpreterState_Get()) return EC_OK;
  return ec_fail(c->call->err, EC_INVALID_STATE, "the backend belongs to another interpreter");
}

/* Returns the status of a failed function, whose exception is pending. */
static ec_status fail_raised(const calling *c, ecpy_state *state, const char *name,
                             const char *function) {
  char what[NAME + 16];
  PyOS_snprintf(what, sizeof what, "%s.%s", name, function);
  const ecpy_foreign foreign = {state, what, c->call->err};
  return ecpy_foreign_raised(&foreign);
}

/* ---- init ------------------------------------------------------------------------------------ */

static PyObject *spec_list(const ec_backend_init *what) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < what->spec_count; i++)
    ecpy_append(&list, Py_BuildValue("Ny#", ecpy_text(what->specs[i].key), what->specs[i].value,
                                     (Py_ssize_t)what->specs[i].size));
  return list;
}

static PyObject *option_list(const ec_backend_init *what) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < what->option_count; i++)
    ecpy_append(&list, Py_BuildValue("NN", ecpy_text(what->options[i].key),
                                     ecpy_option_value(&what->options[i])));
  return list;
}

/* Returns the delegate that the adapter creates. */
static PyObject *create_object(const calling *c, PyObject *adapter) {
  PyObject *call = ecpy_backend_call_new(c->self->state, c->host, c->call);
  PyObject *made = NULL;
  if (call && !Py_EnterRecursiveCall(" in a backend")) {
    made = PyObject_CallMethod(adapter, "create", "(Ny#NNO)", ecpy_text(c->what->method),
                               c->what->payload_size ? c->what->payload : "",
                               (Py_ssize_t)c->what->payload_size, spec_list(c->what),
                               option_list(c->what), call);
    Py_LeaveRecursiveCall();
  }
  ecpy_backend_call_end(call);
  return made;
}

static int read_outputs(handle *d) {
  PyObject *number = PyObject_GetAttrString(d->object, "num_outputs");
  d->outputs = number && number != Py_None ? PyLong_AsSsize_t(number) : -1;
  Py_XDECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

static ec_status create_delegate(calling *c, PyObject *adapter) {
  handle *d = c->delegate;
  PyErr_Clear(); /* clears an exception of a call whose failure a backend ignored */
  memcpy(d->name, c->self->name, sizeof d->name);
  d->state = c->self->state;
  d->interpreter = c->self->interpreter;
  d->object = create_object(c, adapter);
  if (d->object && read_outputs(d)) Py_CLEAR(d->object);
  return d->object ? EC_OK : fail_raised(c, d->state, d->name, "init");
}

static void run_init(void *arg) {
  calling *c = arg;
  PyObject *adapter = Py_XNewRef(c->self->adapter);
  if (!adapter) {
    c->status = ec_fail(c->call->err, EC_NOT_FOUND, "the backend has been unregistered");
    return;
  }
  c->status = check_interpreter(c, c->self->interpreter);
  ec_budget *budget = ec_budget_suspend();
  if (c->status == EC_OK) c->status = create_delegate(c, adapter);
  Py_DECREF(adapter);
  ec_budget_resume(budget);
}

static uint32_t backend_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                             const ec_backend_init *what, void **out) {
  calling c = {.self = self->user, .host = host, .call = call, .what = what};
  c.delegate = host->alloc(sizeof *c.delegate);
  if (!c.delegate || !host->charge(what->payload_size)) { /* the bytes are copied */
    if (c.delegate) host->free(c.delegate);
    return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for a payload of %zu bytes",
                      what->payload_size);
  }
  ecpy_with_gil(run_init, &c);
  if (c.status == EC_OK)
    *out = c.delegate;
  else
    host->free(c.delegate);
  return (uint32_t)c.status;
}

/* ---- execute --------------------------------------------------------------------------------- */

static PyObject *input_object(ecpy_state *state, const ec_backend_arg *arg) {
  switch (arg->kind) {
  case EC_BACKEND_TENSOR: {
    PyObject *array = ecpy_tensor_copy(state, ((const ec_value *)arg->slot)->as.tensor);
    if (array) PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    return array;
  }
  case EC_BACKEND_STRING: return ecpy_text(arg->as.string.data);
  case EC_BACKEND_DOUBLE: return PyFloat_FromDouble(arg->as.d);
  case EC_BACKEND_INT: return PyLong_FromLongLong(arg->as.i);
  case EC_BACKEND_BOOL: return PyBool_FromLong(arg->as.b);
  default: Py_RETURN_NONE;
  }
}

/* Returns the inputs, charged to the budget of the call. */
static PyObject *input_list(const calling *c, size_t count) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++)
    ecpy_append(&list, input_object(c->delegate->state, &c->args[i]));
  return list;
}

static ec_status store_output(const calling *c, const ecpy_foreign *f, size_t i, PyObject *object,
                              ec_backend_arg *arg) {
  char name[32];
  ec_status status;
  PyOS_snprintf(name, sizeof name, "output %zu", i);
  if (arg->kind != EC_BACKEND_TENSOR)
    return ec_fail(f->err, EC_INVALID_PROGRAM,
                   "output %zu of the program is a %s, expected a tensor", i,
                   ec_kind_name((ec_kind)arg->kind));
  PyArrayObject *array = ecpy_foreign_array(f, name, object, &status);
  if (!array) return status;
  status = ecpy_foreign_dtype(f, name, array, (ec_dtype)arg->as.tensor.dtype);
  if (status == EC_OK) {
    status = (ec_status)c->host->resize(c->call, arg, (size_t)PyArray_NDIM(array),
                                        (const int64_t *)PyArray_DIMS(array));
    if (status != EC_OK) ec_fail_in(f->err, status, "%s returned an array for %s", f->what, name);
  }
  if (status == EC_OK)
    status = ecpy_foreign_copy(f->state, ((const ec_value *)arg->slot)->as.tensor, array);
  Py_DECREF(array);
  return status;
}

/* Stores the results, a tuple. */
static ec_status store_outputs(const calling *c, const ecpy_foreign *f, PyObject *result,
                               size_t outputs) {
  const Py_ssize_t count = PyTuple_Check(result) ? PyTuple_GET_SIZE(result) : -1;
  if (count != (Py_ssize_t)outputs)
    return ec_fail(f->err, EC_INVALID_TYPE, "%s returned %zd arrays, but the delegate has %zu "
                   "outputs", f->what, count, outputs);
  for (size_t i = 0; i < outputs; i++)
    EC_TRY(store_output(c, f, i, PyTuple_GET_ITEM(result, (Py_ssize_t)i),
                        &c->args[c->count - outputs + i]));
  return EC_OK;
}

/* Calls the class's execute. Its budget does not apply inside the function. */
static PyObject *call_execute(const calling *c, PyObject *inputs) {
  ec_budget *budget = ec_budget_suspend();
  PyObject *call = ecpy_backend_call_new(c->delegate->state, c->host, c->call), *result = NULL;
  if (call && !Py_EnterRecursiveCall(" in a backend")) {
    result = PyObject_CallMethod(c->delegate->object, "execute", "OO", inputs, call);
    Py_LeaveRecursiveCall();
  }
  ecpy_backend_call_end(call);
  ec_budget_resume(budget);
  return result;
}

static ec_status execute_object(const calling *c, size_t outputs) {
  const handle *d = c->delegate;
  char what[NAME + 16];
  PyOS_snprintf(what, sizeof what, "%s.execute", d->name);
  const ecpy_foreign foreign = {d->state, what, c->call->err};
  PyErr_Clear();
  PyObject *inputs = input_list(c, c->count - outputs);
  PyObject *result = inputs ? call_execute(c, inputs) : NULL;
  Py_XDECREF(inputs);
  ec_status status = result ? store_outputs(c, &foreign, result, outputs) : EC_INTERNAL;
  if (PyErr_Occurred()) status = ecpy_foreign_raised(&foreign);
  Py_XDECREF(result);
  return status;
}

static void run_execute(void *arg) {
  calling *c = arg;
  const Py_ssize_t stated = c->delegate->outputs;
  const size_t outputs = stated < 0 ? c->host->output_count(c->call) : (size_t)stated;
  c->status = check_interpreter(c, c->delegate->interpreter);
  if (c->status == EC_OK && outputs > c->count)
    c->status = ec_fail(c->call->err, EC_INVALID_PROGRAM,
                        "the program passes %zu arguments, but %s.num_outputs is %zu", c->count,
                        c->delegate->name, outputs);
  if (c->status == EC_OK) c->status = execute_object(c, outputs);
}

static uint32_t backend_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                void *delegate, ec_backend_arg *args, size_t count) {
  calling c = {.self = self->user, .host = host, .call = call, .delegate = delegate, .args = args,
               .count = count};
  ecpy_with_gil(run_execute, &c);
  return (uint32_t)c.status;
}

/* ---- destroy, reset, statistics -------------------------------------------------------------- */

/* Calls a function without arguments. Its exceptions have no caller: sys.unraisablehook gets
 * them. */
static PyObject *call_freely(PyObject *object, const char *function) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace); /* of an init that has failed, if a load is undone */
  PyObject *result = PyObject_CallMethod(object, function, NULL);
  if (!result) PyErr_WriteUnraisable(object);
  PyErr_Restore(type, error, trace);
  return result;
}

static void run_destroy(void *arg) {
  handle *d = arg;
  ec_budget *budget = ec_budget_suspend();
  if (d->interpreter == PyInterpreterState_Get()) {
    Py_XDECREF(call_freely(d->object, "destroy"));
    Py_CLEAR(d->object);
  }
  ec_budget_resume(budget);
}

static void backend_destroy(const ec_backend *self, const ec_host *host, void *delegate) {
  (void)self;
  if (Py_IsInitialized()) ecpy_with_gil(run_destroy, delegate);
  host->free(delegate);
}

static void run_reset(void *arg) {
  const handle *d = arg;
  ec_budget *budget = ec_budget_suspend();
  if (d->interpreter == PyInterpreterState_Get()) Py_XDECREF(call_freely(d->object, "reset"));
  ec_budget_resume(budget);
}

static void backend_reset(const ec_backend *self, const ec_host *host, void *delegate) {
  (void)self;
  (void)host;
  ecpy_with_gil(run_reset, delegate);
}

typedef struct reporting {
  handle *delegate;
  void (*add)(void *user, const char *name, int64_t value);
  void *user;
} reporting;

static void run_report(void *arg) {
  reporting *r = arg;
  PyObject *figures = call_freely(r->delegate->object, "report"), *key, *value;
  Py_ssize_t at = 0;
  while (figures && PyDict_Next(figures, &at, &key, &value)) {
    const char *name = PyUnicode_AsUTF8(key);
    const long long number = PyLong_AsLongLong(value);
    if (PyErr_Occurred() || !name)
      PyErr_WriteUnraisable(r->delegate->object);
    else
      r->add(r->user, name, number);
  }
  Py_XDECREF(figures);
}

static void backend_report(const ec_backend *self, void *delegate,
                           void (*add)(void *user, const char *name, int64_t value), void *user) {
  (void)self;
  reporting r = {delegate, add, user};
  ecpy_with_gil(run_report, &r);
}

/* ---- options of the process ------------------------------------------------------------------ */

/* The adapter returns None for an unknown key: the host then names the known ones. */
static ec_status access_option(calling *c, PyObject *value) {
  slot *self = c->self;
  PyErr_Clear();
  const char *key = c->option->key;
  PyObject *option = value ? PyObject_CallMethod(self->adapter, "set_option", "sO", key, value)
                           : PyObject_CallMethod(self->adapter, "get_option", "s", key);
  if (!option) return fail_raised(c, self->state, self->name, "options");
  ec_status status = option == Py_None ? EC_NOT_FOUND : EC_OK;
  if (status == EC_OK && !value) {
    ec_arena arena = {0};
    PyObject *name = PyUnicode_FromString(key);
    if (!name || ecpy_option_parse(name, option, key, &arena, c->option))
      status = fail_raised(c, self->state, self->name, "options");
    Py_XDECREF(name);
    c->option->key = key;
    if (status == EC_OK && c->option->kind == EC_BACKEND_STRING) {
      Py_XSETREF(self->text, Py_NewRef(option));
      c->option->as.string = PyUnicode_AsUTF8(option);
    }
    ec_arena_deinit(&arena);
  }
  Py_DECREF(option);
  return status;
}

static void run_option(void *arg, bool set) {
  calling *c = arg;
  PyObject *value = set ? ecpy_option_value(c->option) : NULL;
  c->status = check_interpreter(c, c->self->interpreter);
  if (c->status == EC_OK && !c->self->adapter)
    c->status = ec_fail(c->call->err, EC_NOT_FOUND, "the backend has been unregistered");
  if (c->status == EC_OK) c->status = access_option(c, value);
  Py_XDECREF(value);
}

static void run_set_option(void *arg) { run_option(arg, true); }
static void run_get_option(void *arg) { run_option(arg, false); }

static uint32_t backend_set_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                   const ec_backend_option *option) {
  ec_backend_option copy = *option;
  calling c = {.self = self->user, .host = host, .call = call, .option = &copy};
  ecpy_with_gil(run_set_option, &c);
  return (uint32_t)c.status;
}

static uint32_t backend_get_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                   ec_backend_option *option) {
  calling c = {.self = self->user, .host = host, .call = call, .option = option};
  ecpy_with_gil(run_get_option, &c);
  return (uint32_t)c.status;
}

PyObject *ecpy_backend_object(const ec_backend *backend, void *delegate) {
  return backend->init == backend_init && delegate ? ((handle *)delegate)->object : NULL;
}

/* ---- registration ---------------------------------------------------------------------------- */

static char *copy_raw(const char *text) {
  const size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

static slot *find_slot(const char *id) {
  slot *s = slots;
  while (s && strcmp(s->base.id, id) != 0) s = s->next;
  return s;
}

static slot *new_slot(const char *id) {
  slot *s = calloc(1, sizeof *s);
  char *copy = s ? copy_raw(id) : NULL;
  if (!copy) {
    free(s);
    ecpy_no_memory("a backend");
    return NULL;
  }
  s->base = (ec_backend){.abi_version = EC_BACKEND_ABI_VERSION, .struct_size = sizeof(ec_backend),
                         .id = copy, .user = s, .init = backend_init, .execute = backend_execute,
                         .destroy = backend_destroy, .set_option = backend_set_option,
                         .get_option = backend_get_option, .report = backend_report,
                         .reset = backend_reset};
  s->next = slots;
  slots = s;
  return s;
}

static bool same_keys(const char *const *keys, PyObject *names) {
  Py_ssize_t i = 0;
  for (; keys && keys[i] && i < PyTuple_GET_SIZE(names); i++)
    if (strcmp(keys[i], PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i))) != 0) return false;
  return keys && !keys[i] && i == PyTuple_GET_SIZE(names);
}

/* Sets the names of options. Earlier ones are not freed: another thread may be reading them. */
static int set_keys(slot *s, PyObject *names) {
  const Py_ssize_t count = PyTuple_GET_SIZE(names);
  if (same_keys(s->base.option_keys, names)) return 0;
  const char **keys = calloc((size_t)count + 1, sizeof *keys);
  for (Py_ssize_t i = 0; keys && i < count; i++) {
    keys[i] = copy_raw(PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i)));
    if (!keys[i]) keys = NULL;
  }
  if (!keys) {
    ecpy_no_memory("the options of a backend");
    return -1;
  }
  s->base.option_keys = keys;
  return 0;
}

/* Sets the version. An earlier one is not freed, as for names of options. */
static int set_version(slot *s, const char *version) {
  const char *old = s->base.version;
  if (version && old && strcmp(version, old) == 0) return 0;
  s->base.version = version ? copy_raw(version) : NULL;
  if (version && !s->base.version) {
    ecpy_no_memory("the version of a backend");
    return -1;
  }
  return 0;
}

int ecpy_register_python_backend(ecpy_state *state, PyObject *args) {
  const char *id, *name, *version;
  PyObject *keys, *adapter;
  int override;
  ec_error err;
  ec_error_clear(&err);
  if (!PyArg_ParseTuple(args, "sszO!Op", &id, &name, &version, &PyTuple_Type, &keys, &adapter,
                        &override))
    return -1;
  slot *s = find_slot(id);
  if (s && s->adapter && !override) {
    ecpy_raise_format(state, EC_REGISTRATION_EXISTS,
                      "%s is registered as '%s' (override=True replaces it)", s->name, id);
    return -1;
  }
  if (!s) s = new_slot(id);
  if (!s || set_keys(s, keys) || set_version(s, version)) return -1;
  if (ec_backend_register(&s->base, &err) != EC_OK) {
    ecpy_raise(state, &err);
    return -1;
  }
  PyOS_snprintf(s->name, sizeof s->name, "%s", name);
  s->state = state;
  s->interpreter = PyInterpreterState_Get();
  Py_XSETREF(s->adapter, Py_NewRef(adapter));
  return 0;
}

static void unregister_slot(slot *s) {
  ec_backend_unregister(&s->base);
  Py_CLEAR(s->text);
  Py_CLEAR(s->adapter);
}

int ecpy_unregister_backend(ecpy_state *state, PyObject *id) {
  if (!PyUnicode_Check(id)) {
    PyErr_Format(PyExc_TypeError, "`id` must be a str, not %.200s", ecpy_type_name(id));
    return -1;
  }
  const char *text = ecpy_utf8(id);
  slot *s = text ? find_slot(text) : NULL;
  if (s && s->adapter) {
    unregister_slot(s);
    return 0;
  }
  if (text)
    ecpy_raise_format(state, EC_NOT_FOUND, "no backend written in Python is registered as '%U'",
                      id);
  return -1;
}

void ecpy_unregister_python_backends(ecpy_state *state) {
  for (slot *s = slots; s; s = s->next)
    if (s->adapter && s->state == state) unregister_slot(s);
}
