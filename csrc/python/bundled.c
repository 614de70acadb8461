/* Bundled programs: the tables of a .bpte as plain objects. Python code creates the arrays. */
#include "python/state.h"

#include "python/bundled.h"

#include "format/bpte.h"
#include "python/errors.h"
#include "python/objects.h"

/* The state of reading. An error in the file goes into `err`; a Python exception stays pending. */
typedef struct reader {
  ec_bpte file;
  ec_error err;
} reader;

static PyObject *tensor_object(reader *r, ec_fb_table table) {
  ec_bpte_tensor t;
  if (ec_bpte_read_tensor(table, &t, &r->err) != EC_OK) return NULL;
  return Py_BuildValue("(sNNnn)", ec_dtype_name(t.dtype), ecpy_int_tuple(t.sizes, t.rank),
                       ecpy_dim_order(t.dim_order, t.rank),
                       (Py_ssize_t)(t.data.size ? t.data.data - r->file.data : 0),
                       (Py_ssize_t)t.data.size);
}

static PyObject *value_object(reader *r, ec_fb_table value) {
  uint8_t type = ec_fb_u8(value, EC_BPTE_Value_val_type);
  ec_fb_table val = type <= EC_BPTE_DOUBLE ? ec_fb_child(value, EC_BPTE_Value_val) : NULL;
  if (val && type == EC_BPTE_TENSOR) return tensor_object(r, val);
  if (val && type == EC_BPTE_INT) return PyLong_FromLongLong(ec_fb_i64(val, EC_BPTE_Int_int_val));
  if (val && type == EC_BPTE_BOOL) return PyBool_FromLong(ec_fb_bool(val, EC_BPTE_Bool_bool_val));
  if (val && type == EC_BPTE_DOUBLE)
    return PyFloat_FromDouble(ec_fb_f64(val, EC_BPTE_Double_double_val));
  ec_fail(&r->err, EC_INVALID_PROGRAM, "a value of type %u, expected a Tensor, Int, Bool or Double",
          type);
  return NULL;
}

/* Returns a list with one object per item of a vector of tables. `what` names an item in
 * messages. */
static PyObject *list_of(reader *r, ec_fb_vec items, const char *what,
                         PyObject *(*object)(reader *r, ec_fb_table item)) {
  PyObject *list = PyList_New(0);
  for (uint32_t i = 0; list && i < items.count; i++) {
    PyObject *item = object(r, ec_fb_vec_table(items, i));
    if (!item && r->err.status != EC_OK) ec_fail_in(&r->err, r->err.status, "%s %u", what, i);
    ecpy_append(&list, item);
  }
  return list;
}

static PyObject *case_object(reader *r, ec_fb_table table) {
  ec_fb_vec inputs = ec_fb_vector(table, EC_BPTE_BundledMethodTestCase_inputs);
  ec_fb_vec outputs = ec_fb_vector(table, EC_BPTE_BundledMethodTestCase_expected_outputs);
  PyObject *first = list_of(r, inputs, "input", value_object);
  PyObject *second = first ? list_of(r, outputs, "expected output", value_object) : NULL;
  if (second) return Py_BuildValue("(NN)", first, second);
  Py_XDECREF(first);
  return NULL;
}

static PyObject *suite_object(reader *r, ec_fb_table table) {
  const char *name = ec_fb_string(table, EC_BPTE_BundledMethodTestSuite_method_name);
  if (!name) {
    ec_fail(&r->err, EC_INVALID_PROGRAM, "no method_name");
    return NULL;
  }
  ec_fb_vec cases = ec_fb_vector(table, EC_BPTE_BundledMethodTestSuite_test_cases);
  PyObject *list = list_of(r, cases, "test case", case_object);
  return list ? Py_BuildValue("(NN)", ecpy_text(name), list) : NULL;
}

static PyObject *file_object(reader *r, const Py_buffer *view) {
  if (ec_bpte_open(&r->file, view->buf, (size_t)view->len, &r->err) != EC_OK) return NULL;
  ec_fb_vec suites = ec_fb_vector(r->file.root, EC_BPTE_BundledProgram_method_test_suites);
  PyObject *list = list_of(r, suites, "method suite", suite_object);
  if (!list) return NULL;
  return Py_BuildValue("(nnN)", (Py_ssize_t)(r->file.program.data - r->file.data),
                       (Py_ssize_t)r->file.program.size, list);
}

PyObject *ecpy_read_bundled(ecpy_state *state, PyObject *data) {
  Py_buffer view;
  reader r = {0};
  ec_error_clear(&r.err);
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
  PyObject *result = file_object(&r, &view);
  PyBuffer_Release(&view);
  if (!result && !PyErr_Occurred()) return ecpy_raise(state, &r.err);
  return result;
}
