/* TensorInfo: dtype, shape and layout of a method's tensor, without its data. */
#include "python/state.h"

#include "python/tensor_info_type.h"

#include "python/dtype.h"
#include "python/objects.h"

typedef struct ecpy_tensor_info {
  PyObject_HEAD
  PyObject *meta; /* the MethodMeta that owns the target of `info` */
  const ec_tensor_info *info;
} ecpy_tensor_info;

static const ec_tensor_info *info_of(PyObject *self) { return ((ecpy_tensor_info *)self)->info; }

/* ---- lifecycle ---- */

PyObject *ecpy_tensor_info_new(ecpy_state *state, PyObject *meta, const ec_tensor_info *info) {
  PyTypeObject *type = state->tensor_info_type;
  ecpy_tensor_info *self = ecpy_new_object(type);
  if (!self) return NULL;
  self->meta = Py_NewRef(meta);
  self->info = info;
  return (PyObject *)self;
}

static int tensor_info_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((ecpy_tensor_info *)self)->meta);
  return 0;
}

static void tensor_info_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(((ecpy_tensor_info *)self)->meta);
  ecpy_free_object(self);
}

/* ---- documented methods ---- */

PyDoc_STRVAR(tensor_info_doc,
             "A program's description of a tensor: an input, output or attribute of a method.\n\n"
             "sizes(), dtype(), is_memory_planned() and nbytes() are the official methods; shape,\n"
             "numpy_dtype, dim_order, name and is_dynamic are properties for NumPy users.");

PyDoc_STRVAR(sizes_doc,
             "sizes($self, /)\n--\n\nReturn the shape as a tuple; upper bounds for dynamic sizes.");

static PyObject *tensor_info_sizes(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_int_tuple(info_of(self)->sizes, info_of(self)->rank);
}

PyDoc_STRVAR(dtype_doc,
             "dtype($self, /)\n--\n\nReturn the dtype as PyTorch's number (6 is float32).");

static PyObject *tensor_info_dtype(PyObject *self, PyObject *Py_UNUSED(args)) {
  return PyLong_FromLong((long)info_of(self)->dtype);
}

PyDoc_STRVAR(planned_doc, "is_memory_planned($self, /)\n--\n\n"
                          "Return True if the program plans memory for the tensor.");

static PyObject *tensor_info_is_memory_planned(PyObject *self, PyObject *Py_UNUSED(args)) {
  return PyBool_FromLong(info_of(self)->is_memory_planned);
}

PyDoc_STRVAR(nbytes_doc, "nbytes($self, /)\n--\n\nReturn the size of the tensor's data in bytes.");

static PyObject *tensor_info_nbytes(PyObject *self, PyObject *Py_UNUSED(args)) {
  return PyLong_FromSize_t(info_of(self)->nbytes);
}

static PyObject *tensor_info_shape(PyObject *self, void *Py_UNUSED(closure)) {
  return tensor_info_sizes(self, NULL);
}

static PyObject *tensor_info_numpy_dtype(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_XNewRef((PyObject *)ecpy_descr(ecpy_state_of(self), info_of(self)->dtype));
}

static PyObject *tensor_info_dim_order(PyObject *self, void *Py_UNUSED(closure)) {
  return ecpy_dim_order(info_of(self)->dim_order, info_of(self)->rank);
}

static PyObject *tensor_info_name(PyObject *self, void *Py_UNUSED(closure)) {
  return ecpy_text(info_of(self)->name);
}

static PyObject *tensor_info_is_dynamic(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(info_of(self)->dynamism != EC_STATIC);
}

PyObject *ecpy_tensor_info_text(const ec_tensor_info *info) {
  PyObject *tuple = ecpy_int_tuple(info->sizes, info->rank);
  PyObject *list = tuple ? PySequence_List(tuple) : NULL;
  Py_XDECREF(tuple);
  if (!list) return NULL;
  PyObject *text = PyUnicode_FromFormat(
      "TensorInfo(sizes=%R, dtype=%s, is_memory_planned=%s, nbytes=%zu)", list,
      ec_dtype_torch_name(info->dtype), info->is_memory_planned ? "True" : "False", info->nbytes);
  Py_DECREF(list);
  return text;
}

static PyObject *tensor_info_repr(PyObject *self) { return ecpy_tensor_info_text(info_of(self)); }

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"sizes", tensor_info_sizes, METH_NOARGS, sizes_doc},
    {"dtype", tensor_info_dtype, METH_NOARGS, dtype_doc},
    {"is_memory_planned", tensor_info_is_memory_planned, METH_NOARGS, planned_doc},
    {"nbytes", tensor_info_nbytes, METH_NOARGS, nbytes_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"shape", tensor_info_shape, NULL, PyDoc_STR("The same as sizes()."), NULL},
    {"numpy_dtype", tensor_info_numpy_dtype, NULL,
     PyDoc_STR("The numpy.dtype of arrays for this tensor. bfloat16 and float8 are those of\n"
               "ml_dtypes if that package is installed, else uint16 and uint8 (raw bits)."),
     NULL},
    {"dim_order", tensor_info_dim_order, NULL,
     PyDoc_STR("The dimensions, outermost in memory first: (0, 1, 2, 3) is row-major,\n"
               "(0, 2, 3, 1) channels-last."),
     NULL},
    {"name", tensor_info_name, NULL,
     PyDoc_STR("The fully qualified name, or None if the file has none."),
     NULL},
    {"is_dynamic", tensor_info_is_dynamic, NULL,
     PyDoc_STR("True if the shape may change from call to call."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)tensor_info_doc},
    {Py_tp_dealloc, tensor_info_dealloc},
    {Py_tp_traverse, tensor_info_traverse},
    {Py_tp_repr, tensor_info_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_tensor_info_spec = {
    .name = "executorch_c.TensorInfo",
    .basicsize = sizeof(ecpy_tensor_info),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
