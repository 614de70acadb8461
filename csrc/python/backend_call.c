/* BackendCall: named data, traces and threads for a function of a Python backend. */
#include "python/state.h"

#include "python/backend_call.h"

#include "core/limits.h"
#include "core/tensor.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/objects.h"

typedef struct backend_call {
  PyObject_HEAD
  ecpy_state *state;
  const ec_host *host; /* NULL: the call has ended */
  ec_host_call *call;
} backend_call;

/* ---- lifecycle ---- */

PyObject *ecpy_backend_call_new(ecpy_state *state, const ec_host *host, ec_host_call *call) {
  PyTypeObject *type = state->backend_call_type;
  backend_call *self = ecpy_new_object(type);
  if (!self) return NULL;
  self->state = state;
  self->host = host;
  self->call = call;
  return (PyObject *)self;
}

void ecpy_backend_call_end(PyObject *object) {
  if (object) ((backend_call *)object)->host = NULL;
  Py_XDECREF(object);
}

static void backend_call_dealloc(PyObject *object) {
  ecpy_free_object(object);
}

static int check_open(backend_call *self) {
  if (self->host) return 0;
  ecpy_raise_format(self->state, EC_INVALID_STATE, "the call of the backend has ended");
  return -1;
}

/* ---- documented methods ---- */

PyDoc_STRVAR(backend_call_doc,
             "The call of a backend's `init` or `execute`, for functions with a parameter\n"
             "`call`.\n\n"
             "It is valid until the function returns; later, and in another thread,\n"
             "InvalidStateError is raised.");

PyDoc_STRVAR(named_data_doc,
             "named_data($self, key, /)\n--\n\n"
             "Return data that the payload refers to by name, of the program or of a .ptd file,\n"
             "as bytes. Raises NotFoundError (a KeyError).");

static PyObject *backend_call_named_data(PyObject *object, PyObject *key) {
  backend_call *self = (backend_call *)object;
  const void *data;
  size_t size;
  if (!PyUnicode_Check(key))
    return PyErr_Format(PyExc_TypeError, "`key` must be a str, not %.200s", ecpy_type_name(key));
  const char *text = ecpy_utf8(key);
  if (!text || check_open(self)) return NULL;
  const uint32_t status = self->host->named_data(self->call, text, &data, &size);
  if (status == EC_NOT_FOUND)
    return ecpy_raise_format(self->state, EC_NOT_FOUND, "no data named '%U'", key);
  if (status) return ecpy_raise_format(self->state, (ec_status)status, "data named '%U'", key);
  return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

/* Reports an array as the value of a node. */
static int trace_array(backend_call *self, uint32_t handle, PyObject *value) {
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK], next = 1;
  uint8_t order[EC_MAX_RANK];
  ec_dtype dtype;
  PyArrayObject *array = (PyArrayObject *)PyArray_FROM_OF(value, NPY_ARRAY_CARRAY_RO |
                                                                     NPY_ARRAY_NOTSWAPPED);
  if (!array) return -1;
  const int rank = PyArray_NDIM(array);
  if (rank > EC_MAX_RANK ||
      !ecpy_dtype_of(self->state, PyArray_DESCR(array), EC_UINT16, &dtype)) {
    PyErr_Format(PyExc_TypeError, "`value`: an array of NumPy dtype %R cannot be traced",
                 (PyObject *)PyArray_DESCR(array));
    Py_DECREF(array);
    return -1;
  }
  for (int d = rank; d-- > 0;) {
    order[d] = (uint8_t)d;
    sizes[d] = PyArray_DIM(array, d);
    strides[d] = next;
    next *= sizes[d];
  }
  const size_t nbytes = (size_t)PyArray_NBYTES(array);
  const ec_backend_tensor tensor = {PyArray_DATA(array), nbytes, nbytes, (int32_t)dtype,
                                    (uint16_t)rank, false, sizes, strides, order};
  self->host->trace_value(self->call, handle, &tensor);
  Py_DECREF(array);
  return 0;
}

PyDoc_STRVAR(trace_doc,
             "trace($self, name, /, value=None, *, debug_handle=None, nanoseconds=0)\n--\n\n"
             "Report a node that has run, and the array that it computed, to the trace.\n\n"
             "Nodes are reported in order. `debug_handle` is the exporter's number of the node,\n"
             "by which tools find its layer. Without a trace it does nothing.");

static PyObject *backend_call_trace(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"", "value", "debug_handle", "nanoseconds", NULL};
  backend_call *self = (backend_call *)object;
  PyObject *value = Py_None, *handle = Py_None;
  const char *name;
  unsigned long long ns = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|O$OK:trace", names, &name, &value, &handle,
                                   &ns) ||
      check_open(self))
    return NULL;
  unsigned long number = handle == Py_None ? UINT32_MAX : PyLong_AsUnsignedLong(handle);
  if (PyErr_Occurred()) return NULL;
  if (number > UINT32_MAX) return PyErr_Format(PyExc_ValueError, "debug_handle is too large");
  const uint32_t wants = self->host->trace_wants(self->call);
  const ec_backend_node node = {(uint32_t)number, name, ns};
  if (wants & EC_BACKEND_TRACE_TIMES) self->host->trace_node(self->call, &node);
  if (wants & EC_BACKEND_TRACE_VALUES && value != Py_None &&
      trace_array(self, node.debug_handle, value))
    return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(tracing_doc, "True if the call is traced: `trace` then has an effect.");

static PyObject *backend_call_tracing(PyObject *object, void *Py_UNUSED(closure)) {
  backend_call *self = (backend_call *)object;
  return check_open(self) ? NULL : PyBool_FromLong(self->host->trace_wants(self->call) != 0);
}

PyDoc_STRVAR(num_threads_doc, "The number of threads of the method, for simulators with threads.");

static PyObject *backend_call_num_threads(PyObject *object, void *Py_UNUSED(closure)) {
  backend_call *self = (backend_call *)object;
  return check_open(self) ? NULL : PyLong_FromSize_t(self->host->thread_count(self->call));
}

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"named_data", backend_call_named_data, METH_O, named_data_doc},
    {"trace", ECPY_KEYWORDS(backend_call_trace), trace_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"tracing", backend_call_tracing, NULL, tracing_doc, NULL},
    {"num_threads", backend_call_num_threads, NULL, num_threads_doc, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)backend_call_doc},
    {Py_tp_dealloc, backend_call_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_backend_call_spec = {
    .name = "executorch_c.BackendCall",
    .basicsize = sizeof(backend_call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
