/* The contents of a program's file as plain dictionaries: Program.info() and
 * Program.requirements(). */
#include "python/state.h"

#include "python/info.h"

#include "python/errors.h"
#include "python/objects.h"
#include "python/program_ref.h"
#include "python/values.h"
#include "runtime/inspect.h"

static PyObject *bool_object(bool value) { return Py_NewRef(value ? Py_True : Py_False); }

static PyObject *dim_order(const ec_tensor_info *info) {
  PyObject *tuple = ecpy_dim_order(info->dim_order, info->rank);
  PyObject *list = tuple ? PySequence_List(tuple) : NULL;
  Py_XDECREF(tuple);
  return list;
}

static const char *dynamism_name(ec_dynamism dynamism) {
  return dynamism == EC_STATIC ? "static" : dynamism == EC_DYNAMIC_BOUND ? "bound" : "unbound";
}

static PyObject *tensor_dict(const ec_tensor_info *info) {
  return Py_BuildValue("{s:s, s:N, s:s, s:N, s:N, s:s, s:N, s:n}", "kind", "Tensor", "name",
                       ecpy_text(info->name), "dtype", ec_dtype_name(info->dtype), "shape",
                       ecpy_int_list(info->sizes, info->rank), "dim_order", dim_order(info),
                       "dynamism", dynamism_name(info->dynamism), "is_memory_planned",
                       bool_object(info->is_memory_planned), "nbytes", (Py_ssize_t)info->nbytes);
}

static PyObject *value_dict(const ec_value_info *info) {
  const char *kind = ec_kind_name(info->kind);
  if (info->kind == EC_KIND_TENSOR) return tensor_dict(&info->tensor);
  if (info->kind == EC_KIND_NONE || info->kind > EC_KIND_BOOL)
    return Py_BuildValue("{s:s}", "kind", kind);
  return Py_BuildValue("{s:s, s:N}", "kind", kind, "value", ecpy_described_object(info));
}

static PyObject *value_list(const ec_value_info *values, size_t count) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) ecpy_append(&list, value_dict(&values[i]));
  return list;
}

static PyObject *attribute_list(const ec_method_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < info->attribute_count; i++)
    ecpy_append(&list, tensor_dict(&info->attributes[i]));
  return list;
}

static PyObject *operator_list(const ec_method_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < info->operator_count; i++) {
    const ec_op_use *use = &info->operators[i];
    ecpy_append(&list, Py_BuildValue("{s:N, s:n, s:N}", "name", ecpy_text(use->name), "calls",
                                     (Py_ssize_t)use->calls, "available",
                                     bool_object(use->available)));
  }
  return list;
}

static PyObject *delegate_list(const ec_method_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < info->delegate_count; i++) {
    const ec_delegate_use *use = &info->delegates[i];
    ecpy_append(&list, Py_BuildValue("{s:N, s:n, s:n, s:N, s:N, s:N, s:N}", "id",
                                     ecpy_text(use->id), "payload",
                                     (Py_ssize_t)use->payload, "calls",
                                     (Py_ssize_t)use->calls, "registered",
                                     bool_object(use->registered), "available",
                                     bool_object(use->available), "lacks",
                                     ecpy_text(use->lacks), "engine", ecpy_text(use->engine)));
  }
  return list;
}

static const char *device_name(const ec_method_info *info) {
  return info->device ? ec_device_name(info->device) : NULL;
}

static PyObject *device_list(const ec_method_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < info->arena_count; i++)
    ecpy_append(&list, ecpy_text(ec_device_name(info->arena_devices[i])));
  return list;
}

static PyObject *method_dict(const ec_method_info *info, bool uses_kv_cache) {
  return Py_BuildValue(
      "{s:N, s:N, s:N, s:N, s:N, s:N, s:N, s:N, s:n, s:n, s:n, s:K, s:N, s:N, s:N, s:N}", "name",
      ecpy_text(info->name), "inputs", value_list(info->inputs, info->input_count), "outputs",
      value_list(info->outputs, info->output_count), "attributes", attribute_list(info), "arenas",
      ecpy_int_list(info->arenas, info->arena_count), "arena_devices", device_list(info),
      "operators", operator_list(info), "delegates", delegate_list(info), "values",
      (Py_ssize_t)info->value_count, "instructions", (Py_ssize_t)info->instruction_count, "chains",
      (Py_ssize_t)info->chain_count,
      "constant_bytes", (unsigned long long)info->constant_bytes, "encoded_inputs",
      ecpy_text(info->encoded_inputs), "encoded_outputs", ecpy_text(info->encoded_outputs),
      "device", ecpy_text(device_name(info)), "uses_kv_cache", bool_object(uses_kv_cache));
}

static PyObject *method_list(ecpy_state *state, ecpy_program_ref *ref) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < ec_program_method_count(ref->program); i++) {
    ec_method_info info = {0};
    if (ecpy_describe(state, ref, i, &info)) {
      Py_CLEAR(list);
      break;
    }
    ecpy_append(&list, method_dict(&info, ec_program_uses_kv_cache(ref->program, i)));
    ec_method_info_deinit(&info);
  }
  return list;
}

static PyObject *segment_list(const ec_program_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < info->segment_count; i++)
    ecpy_append(&list, Py_BuildValue("{s:K, s:K}", "offset",
                                     (unsigned long long)info->segments[i].offset, "size",
                                     (unsigned long long)info->segments[i].size));
  return list;
}

static PyObject *named_list(const ec_program_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < info->named_count; i++)
    ecpy_append(&list, Py_BuildValue("{s:N, s:K, s:i}", "key", ecpy_text(info->named[i].key),
                                     "size", (unsigned long long)info->named[i].size, "source",
                                     info->named[i].source));
  return list;
}

PyObject *ecpy_program_info(ecpy_state *state, ecpy_program_ref *ref) {
  ec_error err;
  ec_error_clear(&err);
  ec_program_info info = {0};
  if (ec_program_info_init(ref->program, &info, &err) != EC_OK) return ecpy_raise(state, &err);
  PyObject *dict = Py_BuildValue(
      "{s:K, s:K, s:K, s:I, s:I, s:N, s:N, s:N}", "file_size", (unsigned long long)info.file_size,
      "program_size", (unsigned long long)info.program_size, "segment_base",
      (unsigned long long)info.segment_base, "header_length", (unsigned)info.header_length,
      "version", (unsigned)info.version, "segments", segment_list(&info), "named_data",
      named_list(&info), "methods", method_list(state, ref));
  ec_program_info_deinit(&info);
  return dict;
}

/* ---- requirements ------------------------------------------------------------------------ */

/* Implements dict[name] += count. Takes the name. */
static int add_count(PyObject *dict, PyObject *name, size_t count) {
  if (!name) return -1;
  PyObject *old = PyDict_GetItemWithError(dict, name);
  size_t sum = count + (old ? PyLong_AsSize_t(old) : 0);
  PyObject *value = PyErr_Occurred() ? NULL : PyLong_FromSize_t(sum);
  int rc = value ? PyDict_SetItem(dict, name, value) : -1;
  Py_XDECREF(value);
  Py_DECREF(name);
  return rc;
}

typedef struct needs {
  PyObject *operators, *backends;                 /* name -> calls, id -> bytes of payload */
  PyObject *missing_operators, *missing_backends, *missing_devices; /* sets of names */
  bool uses_kv_cache;
} needs;

static int add_missing(PyObject *set, const char *name, bool present) {
  if (present) return 0;
  PyObject *text = ecpy_text(name);
  int rc = text ? PySet_Add(set, text) : -1;
  Py_XDECREF(text);
  return rc;
}

static int add_method(needs *n, const ec_method_info *info) {
  for (size_t i = 0; i < info->operator_count; i++) {
    const ec_op_use *use = &info->operators[i];
    if (add_count(n->operators, ecpy_text(use->name), use->calls)) return -1;
    if (add_missing(n->missing_operators, use->name, use->available)) return -1;
  }
  for (size_t i = 0; i < info->delegate_count; i++) {
    const ec_delegate_use *use = &info->delegates[i];
    if (add_count(n->backends, ecpy_text(use->id), use->payload)) return -1;
    if (add_missing(n->missing_backends, use->id, use->available)) return -1;
  }
  return add_missing(n->missing_devices, device_name(info), !info->device);
}

static int add_methods(ecpy_state *state, ecpy_program_ref *ref, needs *n) {
  if (!n->operators || !n->backends || !n->missing_operators || !n->missing_backends ||
      !n->missing_devices)
    return -1;
  for (size_t i = 0; i < ec_program_method_count(ref->program); i++) {
    ec_method_info info = {0};
    if (ecpy_describe(state, ref, i, &info)) return -1;
    int rc = add_method(n, &info);
    ec_method_info_deinit(&info);
    if (rc) return rc;
    n->uses_kv_cache |= ec_program_uses_kv_cache(ref->program, i);
  }
  return 0;
}

/* Returns a sorted list of a set's items. */
static PyObject *sorted_list(PyObject *set) {
  PyObject *list = PySequence_List(set);
  if (list && PyList_Sort(list)) Py_CLEAR(list);
  return list;
}

PyObject *ecpy_program_requirements(ecpy_state *state, ecpy_program_ref *ref) {
  needs n = {PyDict_New(), PyDict_New(), PySet_New(NULL), PySet_New(NULL), PySet_New(NULL),
             false};
  PyObject *dict = NULL;
  if (add_methods(state, ref, &n) == 0)
    dict = Py_BuildValue("{s:O, s:O, s:N, s:N, s:N, s:N}", "operators", n.operators, "backends",
                         n.backends, "missing_operators", sorted_list(n.missing_operators),
                         "missing_backends", sorted_list(n.missing_backends), "missing_devices",
                         sorted_list(n.missing_devices), "uses_kv_cache",
                         bool_object(n.uses_kv_cache));
  Py_XDECREF(n.operators);
  Py_XDECREF(n.backends);
  Py_XDECREF(n.missing_operators);
  Py_XDECREF(n.missing_backends);
  Py_XDECREF(n.missing_devices);
  return dict;
}
