/* Conversion of tensor inputs, tried in this order:
 *   NumPy arrays (and their subclasses, except masked arrays) and NumPy scalars, without a cast of
 *     the dtype: only byte order and alignment are converted, and flat bytes may be bfloat16 or
 *     float8;
 *   Python numbers, and lists and tuples of them: cast to the program's dtype if NumPy's same-kind
 *     rule allows it (int to float, not float to int) and no integer changes its value;
 *   anything with __dlpack__, the buffer protocol, __array_interface__ or __array__. */
#include "python/state.h"

#include "python/convert.h"

#include "kernels/cast.h"
#include "python/dlpack.h"
#include "python/dtype.h"
#include "python/input_errors.h"
#include "python/method.h"

/* Prepends "method 'forward', input 0" to an exception raised by the conversion. */
static PyObject *explain_failure(ecpy_method *self, size_t index, PyObject *object,
                                 const char *how) {
  PyObject *type, *value, *trace;
  if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
    return NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  ecpy_input_error(self, index, "%.100s cannot be read through %s: %S",
                   ecpy_type_name(object), how, value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return NULL;
}

/* Takes an array. Returns one that is aligned and in native byte order. */
static PyObject *make_behaved(ecpy_method *self, size_t index, PyArrayObject *array) {
  ec_dtype dtype;
  ec_dtype expected = (ec_dtype)self->inputs[index].dtype;
  PyObject *out = (PyObject *)array;
  if (!PyArray_CheckExact(out) && PyObject_HasAttrString(out, "mask")) {
    ecpy_input_error(self, index, "found a masked array, whose mask would be lost (use .filled())");
    Py_CLEAR(out);
  } else if (!ecpy_dtype_of(self->state, PyArray_DESCR(array), expected, &dtype)) {
    ecpy_input_error(self, index, "found an array of dtype %S", PyArray_DESCR(array));
    Py_CLEAR(out);
  } else if (PyArray_ISBYTESWAPPED(array)) {
    out = PyArray_CastToType(array, PyArray_DescrFromType(PyArray_TYPE(array)), 0);
    Py_DECREF(array);
  } else if (!PyArray_ISALIGNED(array)) {
    out = PyArray_NewCopy(array, NPY_KEEPORDER);
    Py_DECREF(array);
  }
  return out;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* Returns the rank of a kind in the order of safe casts (bool, integer, float, complex), or -1. */
static int kind_order(char kind) {
  const char *order[] = {"b", "iu", "f", "c"};
  for (int i = 0; i < 4; i++)
    if (strchr(order[i], kind)) return i;
  return -1;
}

static int dtype_order(ec_dtype dtype) {
  return dtype == EC_BOOL ? 0 : ec_is_integral(dtype) ? 1 : ec_is_floating(dtype) ? 2 : 3;
}

/* True if a cast between integer arrays kept all values: casting back restores them. */
static int integers_fit(PyArrayObject *from, PyObject *to) {
  PyArray_Descr *descr = PyArray_DESCR(from);
  Py_INCREF((PyObject *)descr);
  PyObject *back = PyArray_CastToType((PyArrayObject *)to, descr, 0);
  if (!back) return -1;
  PyObject *same = PyObject_RichCompare(back, (PyObject *)from, Py_EQ);
  PyObject *all = same ? PyArray_EnsureAnyArray(same) : NULL; /* takes `same` */
  PyObject *truth = all ? PyArray_All((PyArrayObject *)all, NPY_RAVEL_AXIS, NULL) : NULL;
  Py_XDECREF(all);
  Py_DECREF(back);
  int rc = truth ? PyObject_IsTrue(truth) : -1;
  Py_XDECREF(truth);
  return rc;
}

/* Returns an array of bfloat16 or float8 from any real array, with or without ml_dtypes. Does not
 * take the array. */
static PyObject *round_to_extension(ecpy_state *state, PyArrayObject *array, ec_dtype dtype) {
  PyArray_Descr *descr = ecpy_descr(state, dtype);
  if (!descr) return NULL;
  PyObject *floats = PyArray_FromArray(array, PyArray_DescrFromType(NPY_FLOAT32),
                                       NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
  if (!floats) return NULL;
  PyArrayObject *from = (PyArrayObject *)floats;
  Py_INCREF((PyObject *)descr);
  PyObject *to = PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(from), PyArray_DIMS(from),
                                      NULL, NULL, 0, NULL);
  if (to)
    ec_cast(dtype, EC_FLOAT32)(PyArray_SIZE(from), PyArray_DATA((PyArrayObject *)to),
                               (int64_t)ec_dtype_size(dtype), PyArray_DATA(from), sizeof(float));
  Py_DECREF(floats);
  return to;
}

static PyObject *cast_numbers(ecpy_method *self, size_t index, PyArrayObject *array) {
  ec_dtype dtype = (ec_dtype)self->inputs[index].dtype;
  int from = kind_order(PyArray_DESCR(array)->kind), to = dtype_order(dtype);
  if (from < 0 || (from > to && PyArray_SIZE(array) > 0))
    return ecpy_input_error(self, index, "found Python values of NumPy dtype %S, which are not "
                                         "cast to %s", PyArray_DESCR(array), ec_dtype_name(dtype));
  if (ecpy_is_extension(dtype)) return round_to_extension(self->state, array, dtype);
  PyArray_Descr *descr = ecpy_descr(self->state, dtype);
  if (!descr) return NULL;
  Py_INCREF((PyObject *)descr);
  PyObject *cast = PyArray_CastToType(array, descr, 0);
  int fit = cast && from == 1 && to == 1 ? integers_fit(array, cast) : 1;
  if (cast && fit < 1) Py_CLEAR(cast);
  if (fit == 0) ecpy_input_error(self, index, "found an int that does not fit in %s",
                                 ec_dtype_name(dtype));
  return cast;
}

static PyObject *from_numbers(ecpy_method *self, size_t index, PyObject *object) {
  PyObject *array = PyArray_FromAny(object, NULL, 0, 0, 0, NULL);
  if (!array) return explain_failure(self, index, object, "numpy.array");
  PyObject *cast = cast_numbers(self, index, (PyArrayObject *)array);
  Py_DECREF(array);
  return cast;
}

static bool is_number(PyObject *object) {
  return PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
         PyList_Check(object) || PyTuple_Check(object);
}

/* ---- protocols --------------------------------------------------------------------------- */

/* Reinterprets flat bytes of exactly the right size as bfloat16 or float8, which the buffer
 * protocol cannot express. */
static PyObject *bytes_as_extension(ecpy_method *self, size_t index, PyObject *array) {
  const ecpy_slot *slot = &self->inputs[index];
  PyArrayObject *bytes = (PyArrayObject *)array;
  if (!ecpy_is_extension((ec_dtype)slot->dtype) || PyArray_ITEMSIZE(bytes) != 1 ||
      PyArray_NDIM(bytes) != 1 ||
      (size_t)PyArray_SIZE(bytes) != slot->nbytes || !PyArray_IS_C_CONTIGUOUS(bytes))
    return array;
  PyArray_Descr *descr = ecpy_descr(self->state, (ec_dtype)slot->dtype);
  if (!descr) return array;
  Py_INCREF((PyObject *)descr);
  PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, slot->rank, slot->sizes, NULL,
                                        PyArray_DATA(bytes), 0, NULL);
  if (!view) Py_DECREF(array);
  else if (PyArray_SetBaseObject((PyArrayObject *)view, array)) Py_CLEAR(view);
  return view;
}

static PyObject *from_buffer(ecpy_method *self, size_t index, PyObject *object) {
  PyObject *memory = PyMemoryView_FromObject(object);
  PyObject *array = memory ? PyArray_FromAny(memory, NULL, 0, 0, 0, NULL) : NULL;
  Py_XDECREF(memory);
  return array ? bytes_as_extension(self, index, array)
               : explain_failure(self, index, object, "the buffer protocol");
}

static PyObject *from_protocols(ecpy_method *self, size_t index, PyObject *object) {
  ecpy_state *state = self->state;
  if (PyObject_HasAttr(object, state->name_dlpack)) {
    PyObject *array = ecpy_from_dlpack(state, object);
    return array ? array : explain_failure(self, index, object, "__dlpack__");
  }
  if (PyObject_CheckBuffer(object)) return from_buffer(self, index, object);
  if (PyObject_HasAttr(object, state->name_array_interface) ||
      PyObject_HasAttr(object, state->name_array)) {
    PyObject *array = PyArray_FromAny(object, NULL, 0, 0, 0, NULL);
    return array ? array : explain_failure(self, index, object, "__array__");
  }
  return ecpy_input_error(self, index, "found %.200s", ecpy_type_name(object));
}

PyObject *ecpy_to_array(ecpy_method *self, size_t index, PyObject *object) {
  PyObject *array;
  if (PyArray_CheckExact(object))
    array = bytes_as_extension(self, index, Py_NewRef(object));
  else if (PyArray_Check(object))
    array = Py_NewRef(object);
  else if (PyArray_IsScalar(object, Generic))
    array = PyArray_FromScalar(object, NULL);
  else if (is_number(object))
    array = from_numbers(self, index, object);
  else
    array = from_protocols(self, index, object);
  return array ? make_behaved(self, index, (PyArrayObject *)array) : NULL;
}
