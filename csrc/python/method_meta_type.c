/* MethodMeta: a program's description of a method's inputs, outputs and attributes. */
#include "python/state.h"

#include "python/method_meta_type.h"

#include "python/arguments.h"
#include "python/objects.h"
#include "python/program_ref.h"
#include "python/tensor_info_type.h"
#include "python/values.h"

typedef struct ecpy_method_meta {
  PyObject_HEAD
  ecpy_program_ref *ref;
  ec_method_info info;
} ecpy_method_meta;

const ec_method_info *ecpy_method_meta_info(PyObject *meta) {
  return &((ecpy_method_meta *)meta)->info;
}

/* ---- lifecycle ---- */

PyObject *ecpy_method_meta_new(ecpy_state *state, ecpy_program_ref *ref, size_t index) {
  PyTypeObject *type = state->method_meta_type;
  ecpy_method_meta *self = ecpy_new_object(type);
  if (!self) return NULL;
  if (ecpy_describe(state, ref, index, &self->info)) {
    Py_DECREF(self);
    return NULL;
  }
  self->ref = ecpy_program_ref_retain(ref);
  return (PyObject *)self;
}

static void method_meta_dealloc(PyObject *object) {
  ecpy_method_meta *self = (ecpy_method_meta *)object;
  if (self->ref) ec_method_info_deinit(&self->info);
  ecpy_program_ref_release(self->ref);
  ecpy_free_object(object);
}

/* ---- documented methods ---- */

PyDoc_STRVAR(
    method_meta_doc,
    "A program's description of a method, which need not be loaded.\n\n"
    "name(), num_inputs() and so on are the official methods. `inputs` and `outputs` list all\n"
    "values with their kinds. Indices are those of the arguments of Method.execute.");

PyDoc_STRVAR(name_doc, "name($self, /)\n--\n\nReturn the name of the method.");

static PyObject *method_meta_name(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_text(ecpy_method_meta_info(self)->name);
}

PyDoc_STRVAR(num_inputs_doc, "num_inputs($self, /)\n--\n\nReturn the number of inputs.");

static PyObject *method_meta_num_inputs(PyObject *self, PyObject *Py_UNUSED(args)) {
  return PyLong_FromSize_t(ecpy_method_meta_info(self)->input_count);
}

PyDoc_STRVAR(num_outputs_doc, "num_outputs($self, /)\n--\n\nReturn the number of outputs.");

static PyObject *method_meta_num_outputs(PyObject *self, PyObject *Py_UNUSED(args)) {
  return PyLong_FromSize_t(ecpy_method_meta_info(self)->output_count);
}

PyDoc_STRVAR(num_attributes_doc,
             "num_attributes($self, /)\n--\n\nReturn the number of attributes (named tensors).");

static PyObject *method_meta_num_attributes(PyObject *self, PyObject *Py_UNUSED(args)) {
  return PyLong_FromSize_t(ecpy_method_meta_info(self)->attribute_count);
}

/* Returns an index argument below count, or -1 with an IndexError. */
static Py_ssize_t parse_index(PyObject *args, PyObject *kwargs, const char *what, size_t count) {
  static char *names[] = {"index", NULL};
  PyObject *given;
  Py_ssize_t index;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &given) ||
      ecpy_parse_size("index", given, &index))
    return -1;
  if (index >= 0 && (size_t)index < count) return index;
  PyErr_Format(PyExc_IndexError, "no %s tensor at %zd: the method has %zu %ss", what, index, count,
               what);
  return -1;
}

static PyObject *method_meta_value_meta(PyObject *self, PyObject *args, PyObject *kwargs,
                                        const char *what,
                                        const ec_value_info *values, size_t count) {
  Py_ssize_t index = parse_index(args, kwargs, what, count);
  if (index < 0) return NULL;
  if (values[index].kind == EC_KIND_TENSOR)
    return ecpy_tensor_info_new(ecpy_state_of(self), self, &values[index].tensor);
  return PyErr_Format(PyExc_IndexError, "no %s tensor at %zd: the %s is of kind %s", what, index,
                      what, ec_kind_name(values[index].kind));
}

PyDoc_STRVAR(input_doc,
             "input_tensor_meta($self, /, index)\n--\n\n"
             "Return the TensorInfo of an input. Raises IndexError if it is not a tensor.");

static PyObject *method_meta_input_tensor_meta(PyObject *self, PyObject *args, PyObject *kwargs) {
  const ec_method_info *info = ecpy_method_meta_info(self);
  return method_meta_value_meta(self, args, kwargs, "input", info->inputs, info->input_count);
}

PyDoc_STRVAR(output_doc,
             "output_tensor_meta($self, /, index)\n--\n\n"
             "Return the TensorInfo of an output. Raises IndexError if it is not a tensor.");

static PyObject *method_meta_output_tensor_meta(PyObject *self, PyObject *args, PyObject *kwargs) {
  const ec_method_info *info = ecpy_method_meta_info(self);
  return method_meta_value_meta(self, args, kwargs, "output", info->outputs, info->output_count);
}

PyDoc_STRVAR(attribute_doc,
             "attribute_tensor_meta($self, /, index)\n--\n\n"
             "Return the TensorInfo of an attribute. Raises IndexError for an invalid index.");

static PyObject *method_meta_attribute_tensor_meta(PyObject *self, PyObject *args,
                                                   PyObject *kwargs) {
  const ec_method_info *info = ecpy_method_meta_info(self);
  Py_ssize_t index = parse_index(args, kwargs, "attribute", info->attribute_count);
  if (index < 0) return NULL;
  return ecpy_tensor_info_new(ecpy_state_of(self), self, &info->attributes[index]);
}

/* Returns a TensorInfo, or the traced value of another kind; None for lists and None. */
static PyObject *value_object(PyObject *self, const ec_value_info *value) {
  if (value->kind == EC_KIND_TENSOR)
    return ecpy_tensor_info_new(ecpy_state_of(self), self, &value->tensor);
  return ecpy_described_object(value);
}

static PyObject *value_tuple(PyObject *self, const ec_value_info *items, size_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *pair =
        Py_BuildValue("(sN)", ec_kind_name(items[i].kind), value_object(self, &items[i]));
    if (pair)
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, pair);
    else
      Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *method_meta_inputs(PyObject *self, void *Py_UNUSED(closure)) {
  const ec_method_info *info = ecpy_method_meta_info(self);
  return value_tuple(self, info->inputs, info->input_count);
}

static PyObject *method_meta_outputs(PyObject *self, void *Py_UNUSED(closure)) {
  const ec_method_info *info = ecpy_method_meta_info(self);
  return value_tuple(self, info->outputs, info->output_count);
}

/* Returns the list of texts of the official repr. */
static PyObject *value_texts(PyObject *self, const ec_value_info *items, size_t count) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *text = NULL;
    if (items[i].kind == EC_KIND_TENSOR) {
      text = ecpy_tensor_info_text(&items[i].tensor);
    } else {
      PyObject *value = value_object(self, &items[i]);
      text = value ? PyUnicode_FromFormat("%s(%R)", ec_kind_name(items[i].kind), value) : NULL;
      Py_XDECREF(value);
    }
    ecpy_append(&list, text);
  }
  return list;
}

static PyObject *method_meta_repr(PyObject *self) {
  const ec_method_info *info = ecpy_method_meta_info(self);
  PyObject *method = ecpy_text(info->name);
  PyObject *in = value_texts(self, info->inputs, info->input_count);
  PyObject *out = value_texts(self, info->outputs, info->output_count);
  PyObject *text = NULL;
  if (method && in && out)
    text = PyUnicode_FromFormat("MethodMeta(name=%R, num_inputs=%zu, input_tensor_meta=%R, "
                                "num_outputs=%zu, output_tensor_meta=%R)",
                                method, info->input_count, in, info->output_count, out);
  Py_XDECREF(method);
  Py_XDECREF(in);
  Py_XDECREF(out);
  return text;
}

PyDoc_STRVAR(html_doc, "_repr_html_($self, /)\n--\n\nReturn a table for notebooks.");

static PyObject *method_meta_html(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_call_python("executorch_c._render.objects", "method_meta", self);
}

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"name", method_meta_name, METH_NOARGS, name_doc},
    {"num_inputs", method_meta_num_inputs, METH_NOARGS, num_inputs_doc},
    {"num_outputs", method_meta_num_outputs, METH_NOARGS, num_outputs_doc},
    {"num_attributes", method_meta_num_attributes, METH_NOARGS, num_attributes_doc},
    {"input_tensor_meta", ECPY_KEYWORDS(method_meta_input_tensor_meta), input_doc},
    {"output_tensor_meta", ECPY_KEYWORDS(method_meta_output_tensor_meta), output_doc},
    {"attribute_tensor_meta", ECPY_KEYWORDS(method_meta_attribute_tensor_meta), attribute_doc},
    {"_repr_html_", method_meta_html, METH_NOARGS, html_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"inputs", method_meta_inputs, NULL,
     PyDoc_STR("A tuple of (kind, value) for each input: (\"Tensor\", TensorInfo), or\n"
               "(\"Int\", 3) with the traced value, which each call must repeat."),
     NULL},
    {"outputs", method_meta_outputs, NULL,
     PyDoc_STR("A tuple of (kind, value) for each output, like `inputs`."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)method_meta_doc},
    {Py_tp_dealloc, method_meta_dealloc},
    {Py_tp_repr, method_meta_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_method_meta_spec = {
    .name = "executorch_c.MethodMeta",
    .basicsize = sizeof(ecpy_method_meta),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
