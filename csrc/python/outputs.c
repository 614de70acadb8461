/* Outputs of a call: new arrays that own their memory, or the caller's. */
#include "python/state.h"

#include "python/outputs.h"

#include "python/arrays.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/inputs.h"
#include "python/method.h"
#include "python/values.h"

/* ---- out= -------------------------------------------------------------------------------- */

static int out_error(ecpy_method *self, size_t index, PyObject *sentence) {
  if (!sentence) return -1;
  const ecpy_slot *slot = &self->outputs[index];
  if (slot->kind == EC_KIND_TENSOR)
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "method '%s', out %zu: found %U; expected a writable %s array",
                      ec_method_name(self->method), index, sentence,
                      ec_dtype_name((ec_dtype)slot->dtype));
  else
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "method '%s', out %zu: found %U; expected None, as the output is of kind %s",
                      ec_method_name(self->method), index, sentence,
                      ec_kind_name((ec_kind)slot->kind));
  Py_DECREF(sentence);
  return -1;
}

static int shape_error(ecpy_method *self, size_t index, PyArrayObject *out, int rank,
                       const npy_intp *sizes) {
  PyObject *actual = PyArray_IntTupleFromIntp(PyArray_NDIM(out), PyArray_DIMS(out));
  PyObject *expected = PyArray_IntTupleFromIntp(rank, sizes);
  if (actual && expected)
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "method '%s', out %zu: found shape %R; the output has shape %R",
                      ec_method_name(self->method), index, actual, expected);
  Py_XDECREF(actual);
  Py_XDECREF(expected);
  return -1;
}

static bool same_shape(PyArrayObject *array, int rank, const npy_intp *sizes) {
  return PyArray_NDIM(array) == rank && PyArray_CompareLists(PyArray_DIMS(array), sizes, rank);
}

/* True if an array of out= still has the writability, dtype and shape that were checked: foreign
 * code and other threads may have changed it. */
static bool still_fits(ecpy_method *self, size_t index, PyArrayObject *array) {
  const ecpy_slot *slot = &self->outputs[index];
  ec_dtype dtype;
  return PyArray_ISWRITEABLE(array) &&
         ecpy_dtype_of(self->state, PyArray_DESCR(array), (ec_dtype)slot->dtype, &dtype) &&
         dtype == (ec_dtype)slot->dtype &&
         (!slot->fixed || same_shape(array, slot->rank, slot->sizes));
}

static int parse_out(ecpy_method *self, size_t index, PyObject *item, PyArrayObject **out) {
  const ecpy_slot *slot = &self->outputs[index];
  ec_dtype dtype;
  if (item == Py_None) return 0;
  if (!PyArray_Check(item) || slot->kind != EC_KIND_TENSOR)
    return out_error(self, index, PyUnicode_FromString(ecpy_type_name(item)));
  PyArrayObject *array = (PyArrayObject *)item;
  if (!ecpy_dtype_of(self->state, PyArray_DESCR(array), (ec_dtype)slot->dtype, &dtype) ||
      dtype != (ec_dtype)slot->dtype)
    return out_error(self, index,
                     PyUnicode_FromFormat("an array of dtype %S", PyArray_DESCR(array)));
  if (!PyArray_ISWRITEABLE(array))
    return out_error(self, index, PyUnicode_FromString("a read-only array"));
  if (slot->fixed && !same_shape(array, slot->rank, slot->sizes))
    return shape_error(self, index, array, slot->rank, slot->sizes);
  *out = (PyArrayObject *)Py_NewRef(item);
  return 0;
}

void ecpy_outs_release(ecpy_method *self, PyArrayObject **outs) {
  for (size_t i = 0; i < self->output_count; i++) Py_XDECREF((PyObject *)outs[i]);
}

int ecpy_outs_parse(ecpy_method *self, PyObject *out, PyArrayObject **outs) {
  for (size_t i = 0; i < self->output_count; i++) outs[i] = NULL;
  if (PyArray_Check(out) && self->output_count == 1) return parse_out(self, 0, out, &outs[0]);
  if (!PyList_Check(out) && !PyTuple_Check(out)) {
    PyErr_Format(PyExc_TypeError, "`out` must be an array (of a method with one output), or a list "
                                  "or tuple of %zu, not %.200s",
                 self->output_count, ecpy_type_name(out));
    return -1;
  }
  if ((size_t)PySequence_Fast_GET_SIZE(out) != self->output_count) {
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "method '%s' has %zu outputs, but out has %zd items",
                      ec_method_name(self->method), self->output_count,
                      PySequence_Fast_GET_SIZE(out));
    return -1;
  }
  for (size_t i = 0; i < self->output_count; i++)
    if (parse_out(self, i, PySequence_Fast_GET_ITEM(out, (Py_ssize_t)i), &outs[i])) return -1;
  return 0;
}

/* ---- before the run ---------------------------------------------------------------------- */

/* True if a method may write directly to the caller's array: it has the output's own layout, and
 * nothing else in the call uses its memory. */
static bool is_direct(ecpy_method *self, size_t index, PyArrayObject *const *outs,
                      const ecpy_input *inputs) {
  const ecpy_slot *slot = &self->outputs[index];
  PyArrayObject *out = outs[index];
  if (!PyArray_ISBEHAVED(out)) return false;
  for (int i = 0; i < slot->rank; i++)
    if (slot->sizes[i] > 1 && PyArray_STRIDE(out, i) != slot->strides[i]) return false;
  if (ec_method_owns(self->method, PyArray_DATA(out), slot->nbytes)) return false;
  for (size_t i = 0; i < self->output_count; i++)
    if (i != index && outs[i] && ecpy_overlaps(out, outs[i])) return false;
  for (size_t i = 0; i < self->input_count; i++)
    if (inputs[i].keep && PyArray_Check(inputs[i].keep) &&
        ecpy_overlaps(out, (PyArrayObject *)inputs[i].keep))
      return false;
  return true;
}

int ecpy_outputs_make(ecpy_method *self, PyArrayObject *const *outs, const ecpy_input *inputs,
                      PyObject **results) {
  for (size_t i = 0; i < self->output_count; i++) {
    const ecpy_slot *slot = &self->outputs[i];
    if (!slot->fixed) continue;
    if (outs && outs[i] && still_fits(self, i, outs[i]) && is_direct(self, i, outs, inputs)) {
      results[i] = Py_NewRef((PyObject *)outs[i]);
      continue;
    }
    if (ecpy_charge_results(self->state, slot->nbytes)) return -1;
    results[i] = (PyObject *)ecpy_new_array(slot->descr, slot->rank, slot->sizes, slot->strides,
                                            slot->row_major);
    if (!results[i]) return -1;
  }
  return 0;
}

ec_status ecpy_outputs_bind(ecpy_method *self, PyArrayObject *const *outs,
                            const ecpy_input *inputs, PyObject *const *results, ec_error *err) {
  for (size_t i = 0; i < self->output_count; i++) {
    const ecpy_slot *slot = &self->outputs[i];
    const bool has_out = outs && outs[i];
    const bool direct = has_out && results[i] == (PyObject *)outs[i];
    if (has_out && (!still_fits(self, i, outs[i]) || (direct && !is_direct(self, i, outs, inputs))))
      return ec_fail(err, EC_INVALID_ARGUMENT,
                     "method '%s', out %zu: the array was changed while the method was called",
                     ec_method_name(self->method), i);
    if (slot->fixed)
      EC_TRY(ec_method_bind_output(self->method, i, PyArray_DATA((PyArrayObject *)results[i]),
                                   slot->nbytes, err));
  }
  return EC_OK;
}

/* ---- after the run ----------------------------------------------------------------------- */

int ecpy_mutated_read(ecpy_method *self, PyObject *list) {
  for (size_t i = 0; i < self->input_count; i++) {
    if (!ec_method_input_is_mutated(self->method, i)) continue;
    const ec_tensor *tensor = ec_method_input(self->method, i)->as.tensor;
    if (!tensor->data && tensor->numel) continue; /* freed by the program */
    PyObject *array = ecpy_tensor_copy(self->state, tensor);
    PyObject *pair = array ? Py_BuildValue("nN", (Py_ssize_t)i, array) : NULL;
    int rc = pair ? PyList_Append(list, pair) : -1;
    Py_XDECREF(pair);
    if (rc) return -1;
  }
  return 0;
}

int ecpy_outputs_read(ecpy_method *self, PyObject **results) {
  for (size_t i = 0; i < self->output_count; i++) {
    if (results[i]) continue;
    results[i] = ecpy_value_object(self->state, ec_method_output(self->method, i));
    if (!results[i]) return -1;
  }
  return 0;
}

int ecpy_outs_finish(ecpy_method *self, PyArrayObject *const *outs, PyObject **results) {
  for (size_t i = 0; i < self->output_count; i++) {
    PyArrayObject *out = outs[i], *result = (PyArrayObject *)results[i];
    if (!out || out == result) continue;
    if (!still_fits(self, i, out))
      return out_error(self, i, PyUnicode_FromString("an array that was changed during the call"));
    if (!same_shape(out, PyArray_NDIM(result), PyArray_DIMS(result)))
      return shape_error(self, i, out, PyArray_NDIM(result), PyArray_DIMS(result));
    if (PyArray_CopyInto(out, result)) return -1;
    results[i] = Py_NewRef((PyObject *)out);
    Py_DECREF(result);
  }
  return 0;
}
