/* Traces: started and stopped by Method, returned as plain tuples. Arrays of values are views of
 * the trace, which lives as long as any of them. */
#include "python/state.h"

#include "python/trace.h"

#include "python/arrays.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/method.h"
#include "python/objects.h"
#include "python/values.h"

static const char capsule_name[] = "executorch_c._trace";

/* ---- results that are changed ------------------------------------------------------------ */

typedef struct altered {
  ecpy_method *method;
  const ec_event *event;
  uint32_t output;
  const ec_tensor *tensor;
} altered;

static PyObject *number_or_none(uint32_t n) {
  return n == EC_TRACE_NONE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(n);
}

static PyObject *call_python(const altered *r, PyObject *array) {
  const ec_event *e = r->event;
  return PyObject_CallFunction(
      r->method->alter, "sNiNNNNIIO", ec_event_kind_name((ec_event_kind)e->kind),
      ecpy_text(e->name), (int)e->depth, number_or_none(e->chain), number_or_none(e->instruction),
      number_or_none(e->delegate), number_or_none(e->debug_handle), e->number, r->output, array);
}

/* Takes the array's elements. Fails for an array that has other memory by now (ndarray.resize). */
static int take_data(const ec_tensor *t, PyArrayObject *array, const void *data) {
  const size_t size = ec_tensor_nbytes(t);
  if (PyArray_DATA(array) != data || (size_t)PyArray_NBYTES(array) != size) {
    PyErr_Format(PyExc_ValueError,
                 "`alter` has resized the array: %zd bytes, expected the tensor's %zu",
                 (Py_ssize_t)PyArray_NBYTES(array), size);
    return -1;
  }
  if (!(t->flags & EC_TENSOR_READONLY)) memcpy(t->data, data, size);
  return 0;
}

static int alter_tensor(const altered *r) {
  PyObject *array = ecpy_tensor_copy(r->method->state, r->tensor);
  if (!array) return -1;
  PyArrayObject *own = (PyArrayObject *)array;
  const void *data = PyArray_DATA(own);
  if (r->tensor->flags & EC_TENSOR_READONLY) PyArray_CLEARFLAGS(own, NPY_ARRAY_WRITEABLE);
  PyObject *returned = call_python(r, array);
  const int rc = returned ? take_data(r->tensor, own, data) : -1;
  Py_XDECREF(returned);
  Py_DECREF(array);
  return rc;
}

/* executorch_c/trace.py keeps the exceptions of functions, and those that it is called with. */
static void call_alter(void *arg) {
  const altered *r = arg;
  if (alter_tensor(r) == 0) return;
  PyObject *error = ecpy_fetch_exception();
  PyObject *kept = error ? PyObject_CallOneArg(r->method->alter, error) : NULL;
  if (!kept) PyErr_WriteUnraisable(r->method->alter);
  Py_XDECREF(kept);
  Py_XDECREF(error);
}

static void alter_result(void *user, const ec_event *event, uint32_t output,
                         const ec_tensor *tensor) {
  altered r = {user, event, output, tensor};
  ecpy_with_gil(call_alter, &r);
}

/* Returns -1 with InvalidStateError if a trace is running. */
static int start_trace(ecpy_method *self, unsigned keeps, size_t max_bytes, PyObject *alter) {
  ec_trace *trace = ec_trace_new(keeps, max_bytes);
  if (!trace) {
    ecpy_no_memory("a trace");
    return -1;
  }
  if (ecpy_method_lock(self)) {
    ec_trace_free(trace);
    return -1;
  }
  const bool free_now = self->trace != NULL;
  if (!free_now) {
    self->trace = trace;
    self->alter = Py_XNewRef(alter);
    if (alter) ec_trace_set_alter(trace, alter_result, self);
    ec_method_set_trace(self->method, trace);
  }
  ecpy_method_unlock(self);
  if (!free_now) return 0;
  ec_trace_free(trace);
  ecpy_raise_format(self->state, EC_INVALID_STATE, "method '%s' is being traced already",
                    ec_method_name(self->method));
  return -1;
}

PyObject *ecpy_trace_start(PyObject *self, PyObject *args) {
  int values, ranges = 0;
  Py_ssize_t max_bytes;
  PyObject *alter = Py_None;
  if (!PyArg_ParseTuple(args, "pn|pO:_trace_start", &values, &max_bytes, &ranges, &alter))
    return NULL;
  const unsigned keeps = (values ? EC_TRACE_VALUES : 0u) | (ranges ? EC_TRACE_RANGES : 0u);
  if (alter == Py_None) alter = NULL;
  if (start_trace((ecpy_method *)self, keeps, (size_t)max_bytes, alter)) return NULL;
  Py_RETURN_NONE;
}

static void free_capsule(PyObject *capsule) {
  ec_trace_free(PyCapsule_GetPointer(capsule, capsule_name));
}

/* ---- values ------------------------------------------------------------------------------ */

/* Returns a read-only array on the copied data. */
static PyObject *array_object(ecpy_state *state, PyObject *capsule, const ec_event_value *v) {
  const ec_dtype dtype = (ec_dtype)v->dtype;
  PyArray_Descr *descr = ecpy_descr(state, dtype);
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  int64_t elements[EC_MAX_RANK];
  if (!descr) return NULL;
  for (size_t d = 0; d < v->rank; d++) sizes[d] = (npy_intp)v->sizes[d];
  ec_strides(v->sizes, v->dim_order, v->rank, elements);
  ecpy_byte_strides(v->rank, elements, ec_dtype_size(dtype), strides);
  return (PyObject *)ecpy_array_view(descr, v->rank, sizes, strides, (void *)(uintptr_t)v->data,
                                     false, capsule);
}

static PyObject *data_object(ecpy_state *state, PyObject *capsule, const ec_event_value *v) {
  if (v->scalar.kind != EC_KIND_TENSOR) return ecpy_scalar_object(v->scalar);
  return v->data ? array_object(state, capsule, v) : Py_NewRef(Py_None);
}

static PyObject *name_object(const ec_event_value *v) {
  if (v->item == EC_TRACE_NONE) return ecpy_text(v->name);
  return PyUnicode_FromFormat("%s[%u]", v->name, v->item);
}

static PyObject *range_object(const ec_range *r) {
  if (!r) return Py_NewRef(Py_None);
  const long long first = r->first == UINT64_MAX ? -1 : (long long)r->first;
  return Py_BuildValue("KKKLdd", (unsigned long long)r->nan, (unsigned long long)r->above,
                       (unsigned long long)r->below, first, r->low, r->high);
}

static PyObject *value_object(ecpy_state *state, PyObject *capsule, const ec_event_value *v) {
  const bool tensor = v->scalar.kind == EC_KIND_TENSOR;
  PyObject *name = name_object(v), *shape = ecpy_int_tuple(v->sizes, v->rank);
  PyObject *order = ecpy_dim_order(v->dim_order, v->rank);
  PyObject *data = data_object(state, capsule, v), *out = NULL;
  PyObject *slot = number_or_none(v->slot), *range = range_object(v->range);
  if (name && shape && order && data && slot && range)
    out = Py_BuildValue("OOzOOnOOO", name, v->is_output ? Py_True : Py_False,
                        tensor ? ec_dtype_name((ec_dtype)v->dtype) : NULL, shape, order,
                        (Py_ssize_t)v->nbytes, data, slot, range);
  Py_XDECREF(name);
  Py_XDECREF(shape);
  Py_XDECREF(order);
  Py_XDECREF(data);
  Py_XDECREF(slot);
  Py_XDECREF(range);
  return out;
}

/* ---- events ------------------------------------------------------------------------------ */

static PyObject *values_list(ecpy_state *state, PyObject *capsule, const ec_event *event) {
  PyObject *list = PyList_New(0);
  for (const ec_event_value *v = event->values; list && v; v = v->next) {
    ecpy_append(&list, value_object(state, capsule, v));
  }
  return list;
}

/* Takes `values`. Py_BuildValue's "N" accepts NULL, so failed numbers need no check. */
static PyObject *event_object(const ec_event *e, PyObject *values) {
  if (!values) return NULL;
  return Py_BuildValue("sNiNNNNKKON", ec_event_kind_name((ec_event_kind)e->kind),
                       ecpy_text(e->name), (int)e->depth, number_or_none(e->chain),
                       number_or_none(e->instruction), number_or_none(e->delegate),
                       number_or_none(e->debug_handle),
                       (unsigned long long)e->start, (unsigned long long)e->duration,
                       e->failed ? Py_True : Py_False, values);
}

static PyObject *events_list(ecpy_state *state, PyObject *capsule, const ec_trace *trace) {
  PyObject *list = PyList_New(0);
  for (const ec_event *e = ec_trace_first(trace); list && e; e = e->next) {
    ecpy_append(&list, event_object(e, values_list(state, capsule, e)));
  }
  return list;
}

/* Takes the trace. */
static PyObject *trace_result(ecpy_state *state, ec_trace *trace) {
  PyObject *capsule = PyCapsule_New(trace, capsule_name, free_capsule);
  if (!capsule) {
    ec_trace_free(trace);
    return NULL;
  }
  PyObject *events = events_list(state, capsule, trace);
  PyObject *result = NULL;
  if (events)
    result = Py_BuildValue("Onn", events, (Py_ssize_t)ec_trace_dropped_events(trace),
                           (Py_ssize_t)ec_trace_dropped_values(trace));
  Py_XDECREF(events);
  Py_DECREF(capsule);
  return result;
}

PyObject *ecpy_trace_stop(ecpy_method *self) {
  if (ecpy_method_lock(self)) return NULL;
  ec_trace *trace = self->trace;
  self->trace = NULL;
  ec_method_set_trace(self->method, self->record);
  PyObject *alter = self->alter;
  self->alter = NULL;
  ecpy_method_unlock(self);
  Py_XDECREF(alter);
  if (trace) return trace_result(self->state, trace);
  return ecpy_raise_format(self->state, EC_INVALID_STATE, "method '%s' is not being traced",
                           ec_method_name(self->method));
}

/* ---- records ----------------------------------------------------------------------------- */

enum { RECORD_BYTES = 256 << 20 }; /* without values, which have a separate limit */

/* Replaces the current record by a new one, returning it in `last`. */
static int replace_record(ecpy_method *self, size_t max_data, ec_trace **last) {
  const size_t room = SIZE_MAX - RECORD_BYTES;
  ec_trace *record = ec_trace_new(max_data ? EC_TRACE_VALUES : 0,
                                  RECORD_BYTES + (max_data < room ? max_data : room));
  if (!record) {
    ecpy_no_memory("the record of a method");
    return -1;
  }
  ec_trace_bound_data(record, max_data);
  if (ecpy_method_lock(self)) {
    ec_trace_free(record);
    return -1;
  }
  *last = self->record;
  self->record = record;
  self->record_data = max_data;
  if (!self->trace) ec_method_set_trace(self->method, record);
  ecpy_method_unlock(self);
  return 0;
}

int ecpy_trace_record(ecpy_method *self, size_t max_data) {
  ec_trace *last = NULL;
  if (self->record) return 0;
  if (replace_record(self, max_data, &last)) return -1;
  ec_trace_free(last); /* of another thread that replaced it first */
  return 0;
}

PyObject *ecpy_trace_drain(ecpy_method *self) {
  ec_trace *last = NULL;
  if (!self->record)
    return ecpy_raise_format(self->state, EC_INVALID_STATE, "method '%s' is not being recorded",
                             ec_method_name(self->method));
  return replace_record(self, self->record_data, &last) ? NULL : trace_result(self->state, last);
}
