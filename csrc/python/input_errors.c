/* Messages about inputs: location, what was found, what was expected. */
#include "python/state.h"

#include "python/input_errors.h"

#include <stdarg.h>

#include "python/errors.h"
#include "python/method.h"
#include "python/method_meta_type.h"
#include "python/objects.h"

/* "(<=8, 4)" */
static PyObject *shape_text(const ec_tensor_info *info) {
  const char *bound = info->dynamism == EC_STATIC ? "" : "<=";
  PyObject *text = PyUnicode_FromString("(");
  for (size_t i = 0; text && i < info->rank; i++) {
    PyObject *longer = PyUnicode_FromFormat("%U%s%s%lld", text, i ? ", " : "", bound,
                                            (long long)info->sizes[i]);
    Py_SETREF(text, longer);
  }
  if (text) Py_SETREF(text, PyUnicode_FromFormat("%U%s)", text, info->rank == 1 ? "," : ""));
  return text;
}

/* "a float32 array of shape (2, 2)", "the int 3", "None" */
static PyObject *expected_text(const ec_value_info *info) {
  PyObject *part = NULL, *text = NULL;
  switch (info->kind) {
  case EC_KIND_TENSOR:
    part = shape_text(&info->tensor);
    if (part)
      text = PyUnicode_FromFormat("a %s array of shape %U", ec_dtype_name(info->tensor.dtype),
                                  part);
    break;
  case EC_KIND_INT:
    text = PyUnicode_FromFormat("the int %lld", (long long)info->scalar.as.i);
    break;
  case EC_KIND_DOUBLE:
    part = PyFloat_FromDouble(info->scalar.as.d);
    if (part) text = PyUnicode_FromFormat("the float %R", part);
    break;
  case EC_KIND_BOOL:
    text = PyUnicode_FromFormat("the bool %s", info->scalar.as.b ? "True" : "False");
    break;
  case EC_KIND_STRING:
    part = ecpy_text(info->string);
    if (part) text = PyUnicode_FromFormat("the str %R", part);
    break;
  default: text = PyUnicode_FromString(ec_kind_name(info->kind));
  }
  Py_XDECREF(part);
  return text;
}

static const ec_method_info *meta_info(ecpy_method *self) {
  PyObject *meta = ecpy_method_get_meta(self);
  return meta ? ecpy_method_meta_info(meta) : NULL;
}

/* Returns " ('weight')" if the input has a name, else "". */
static PyObject *name_text(const ec_value_info *info) {
  PyObject *name = ecpy_text(info->kind == EC_KIND_TENSOR ? info->tensor.name : NULL);
  if (!name || name == Py_None) {
    Py_XSETREF(name, PyUnicode_FromString(""));
    return name;
  }
  Py_SETREF(name, PyUnicode_FromFormat(" ('%U')", name));
  return name;
}

void *ecpy_input_error(ecpy_method *self, size_t index, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *sentence = PyUnicode_FromFormatV(format, args);
  va_end(args);
  const ec_method_info *info = sentence ? meta_info(self) : NULL;
  if (!info || index >= info->input_count) {
    Py_XDECREF(sentence);
    return NULL;
  }
  PyObject *expected = expected_text(&info->inputs[index]);
  PyObject *name = expected ? name_text(&info->inputs[index]) : NULL;
  if (name)
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT, "method '%s', input %zu%U: %U; expected %U",
                      info->name, index, name, sentence, expected);
  Py_XDECREF(name);
  Py_XDECREF(expected);
  Py_DECREF(sentence);
  return NULL;
}

/* Formats at most MAX_INPUTS inputs:
 * "expected 2 inputs (a float32 array of shape (2, 2), the int 3), got 1". */
void ecpy_input_count_error(ecpy_method *self, size_t count) {
  enum { MAX_INPUTS = 16 };
  const ec_method_info *info = meta_info(self);
  PyObject *list = info ? PyUnicode_FromString("") : NULL;
  for (size_t i = 0; list && i < info->input_count && i < MAX_INPUTS; i++) {
    PyObject *one = expected_text(&info->inputs[i]);
    Py_SETREF(list, one ? PyUnicode_FromFormat("%U%s%U", list, i ? ", " : "", one) : NULL);
    Py_XDECREF(one);
  }
  if (list && info->input_count > MAX_INPUTS)
    Py_SETREF(list, PyUnicode_FromFormat("%U and %zu more", list, info->input_count - MAX_INPUTS));
  if (!list) return;
  size_t n = self->input_count;
  ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                    "method '%s' takes %zu input%s%s%U, but got %zu", info->name, n,
                    n == 1 ? "" : "s", n ? ": " : "", list, count);
  Py_DECREF(list);
}
