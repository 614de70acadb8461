/* Method.backend_report: the statistics of each delegate. They are collected without the GIL,
 * because a backend may wait for a lock. */
#include "python/state.h"

#include "python/report.h"

#include "core/alloc.h"
#include "core/arena.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/method.h"
#include "python/objects.h"

typedef struct figure {
  struct figure *next;
  int64_t value;
  char name[];
} figure;

typedef struct collecting {
  const ec_method *method;
  size_t index;
  ec_arena arena;
  figure *first, **end;
  bool failed;
} collecting;

static void add_figure(void *user, const char *name, int64_t value) {
  collecting *c = user;
  const size_t size = strlen(name) + 1;
  figure *one = ec_arena_alloc(&c->arena, sizeof *one + size, EC_ALIGN);
  if (!one) {
    c->failed = true;
    return;
  }
  *one = (figure){.value = value};
  memcpy(one->name, name, size);
  *c->end = one;
  c->end = &one->next;
}

static void run_report(void *arg) {
  collecting *c = arg;
  ec_method_report(c->method, c->index, add_figure, c);
}

static PyObject *figure_dict(const ec_method *method, size_t index) {
  collecting c = {.method = method, .index = index};
  c.end = &c.first;
  ecpy_without_gil(run_report, &c);
  PyObject *dict = c.failed ? ecpy_no_memory("the report of a backend") : PyDict_New();
  for (const figure *one = c.first; dict && one; one = one->next) {
    PyObject *value = PyLong_FromLongLong(one->value);
    if (!value || PyDict_SetItemString(dict, one->name, value)) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  ec_arena_deinit(&c.arena);
  return dict;
}

/* Counts a call in a dictionary of calls by operator, unless an exception is set. */
static void count_call(void *dict, const char *op) {
  if (PyErr_Occurred()) return;
  PyObject *key = PyUnicode_FromString(op);
  PyObject *known = key ? PyDict_GetItemWithError(dict, key) : NULL;
  PyObject *count = NULL;
  if (!PyErr_Occurred()) count = PyLong_FromLong(known ? PyLong_AsLong(known) + 1 : 1);
  if (count) PyDict_SetItem(dict, key, count);
  Py_XDECREF(count);
  Py_XDECREF(key);
}

static PyObject *delegated_dict(const ec_method *method, size_t index) {
  PyObject *dict = PyDict_New();
  if (dict) ec_method_visit_delegated(method, index, count_call, dict);
  if (PyErr_Occurred()) Py_CLEAR(dict);
  return dict;
}

/* Calls of the program inside a payload, by the backend that took them. */
static PyObject *nested_dict(const ec_method *method, size_t index) {
  size_t calls;
  const char *backend = ec_method_nested_delegation(method, index, &calls);
  return backend ? Py_BuildValue("{s:n}", backend, (Py_ssize_t)calls) : PyDict_New();
}

PyObject *ecpy_method_report(ecpy_method *self) {
  const bool fresh = self->fresh;
  if (!fresh && ecpy_method_lock(self)) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < ec_method_delegate_count(self->method); i++) {
    const char *id = ec_method_delegate_id(self->method, i);
    const Py_ssize_t calls = (Py_ssize_t)ec_method_delegated_calls(self->method, i);
    PyObject *delegated = delegated_dict(self->method, i);
    PyObject *nested = delegated ? nested_dict(self->method, i) : NULL;
    PyObject *figures = nested ? figure_dict(self->method, i) : NULL;
    if (!figures) {
      Py_CLEAR(delegated);
      Py_CLEAR(nested);
    }
    ecpy_append(&list, figures ? Py_BuildValue("{s:s, s:n, s:N, s:N, s:N}", "backend", id,
                                               "calls_delegated_at_load", calls,
                                               "delegated_at_load", delegated,
                                               "nested_delegated_at_load", nested,
                                               "figures", figures)
                               : NULL);
  }
  if (!fresh) ecpy_method_unlock(self);
  return list;
}

PyObject *ecpy_method_undelegated(ecpy_method *self) {
  const char *op, *reason;
  size_t calls;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && ec_method_undelegated(self->method, i, &op, &reason, &calls); i++)
    ecpy_append(&list, Py_BuildValue("{s:s, s:s, s:n}", "operator", op, "reason", reason, "calls",
                                     (Py_ssize_t)calls));
  return list;
}
