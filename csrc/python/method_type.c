/* Method: a loaded method that runs on arrays. */
#include "python/state.h"

#include "python/method.h"

#include "python/backends.h"
#include "python/convert.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/interrupt.h"
#include "python/log.h"
#include "python/operators.h"
#include "python/trace.h"

/* ---- lifecycle ---- */

static PyObject *method_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames);

typedef struct loading {
  const ec_program *program;
  const char *name;
  ec_method_options options;
  ec_method *method;
  ecpy_interrupt interrupt;
  ec_status status;
  ec_error err;
  uint64_t start, end;
} loading;

static void run_load(void *arg) {
  loading *load = arg;
  load->start = ec_trace_now();
  load->options.interrupt = &load->interrupt.asked;
  load->status = ec_method_load(load->program, load->name, &load->options, &load->method,
                                &load->err);
  load->end = ec_trace_now();
}

static void run_free(void *method) { ec_method_free(method); }

int ecpy_slot_read(ecpy_state *state, const ec_value *value, bool fixed, ecpy_slot *slot) {
  *slot = (ecpy_slot){.kind = (uint8_t)value->kind, .fixed = fixed};
  if (value->kind != EC_KIND_TENSOR) return 0;
  const ec_tensor *tensor = value->as.tensor;
  size_t itemsize = ec_dtype_size(ec_tensor_dtype(tensor));
  slot->dtype = tensor->dtype;
  slot->rank = tensor->rank;
  slot->row_major = ec_tensor_is_contiguous(tensor);
  slot->nbytes = ec_tensor_nbytes(tensor);
  for (size_t i = 0; i < tensor->rank; i++) {
    slot->sizes[i] = (npy_intp)tensor->sizes[i];
    slot->strides[i] = (npy_intp)tensor->strides[i] * (npy_intp)itemsize;
  }
  slot->descr = (PyArray_Descr *)Py_XNewRef(ecpy_descr(state, ec_tensor_dtype(tensor)));
  return slot->descr ? 0 : -1;
}

static int read_slots(ecpy_method *self) {
  self->input_count = ec_method_input_count(self->method);
  self->output_count = ec_method_output_count(self->method);
  self->inputs = PyMem_Calloc(self->input_count + 1, sizeof *self->inputs);
  self->outputs = PyMem_Calloc(self->output_count + 1, sizeof *self->outputs);
  if (!self->inputs || !self->outputs) {
    ecpy_no_memory("the inputs and outputs of a method");
    return -1;
  }
  for (size_t i = 0; i < self->input_count; i++)
    if (ecpy_slot_read(self->state, ec_method_input(self->method, i), false, &self->inputs[i]))
      return -1;
  for (size_t i = 0; i < self->output_count; i++)
    if (ecpy_slot_read(self->state, ec_method_output(self->method, i),
                       ec_method_output_is_static(self->method, i), &self->outputs[i]))
      return -1;
  return 0;
}

/* Loads, and once more where something is missing but installed plug-ins were not looked for. */
static int load(ecpy_state *state, loading *l) {
  ecpy_interrupt_init(&l->interrupt);
  ecpy_without_gil(run_load, l);
  if ((l->status == EC_NOT_FOUND || l->status == EC_OPERATOR_MISSING) && !state->discovered) {
    if (ecpy_discover(state)) return -1;
    ecpy_without_gil(run_load, l);
  }
  if (l->status == EC_OK && !l->interrupt.exception) return 0;
  if (!ecpy_interrupt_raise(&l->interrupt)) ecpy_raise(state, &l->err);
  return -1;
}

PyObject *ecpy_method_new(ecpy_state *state, ecpy_shared *shared, const char *name,
                          const ec_method_options *options) {
  loading l = {.program = shared->program, .name = name, .options = *options};
  PyTypeObject *type = state->method_type;
  ecpy_method *self = (ecpy_method *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->vectorcall = method_vectorcall;
  self->state = state;
  self->shared = ecpy_shared_take(shared);
  const int rc = load(state, &l);
  self->method = l.method;
  if (rc == 0) {
    self->load_start = l.start;
    self->load_ns = l.end - l.start;
    if (read_slots(self) == 0) {
      PyObject *reference = options->reference_kernels ? Py_True : Py_False;
      self->fresh = true;
      PyObject *made = ecpy_log_made("method_loaded", (PyObject *)self, reference, l.start);
      if (made) self->fresh = false;
      return made;
    }
  }
  Py_DECREF(self);
  return NULL;
}

static int method_traverse(PyObject *object, visitproc visit, void *arg) {
  ecpy_method *self = (ecpy_method *)object;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self->meta);
  for (size_t i = 0; self->method && i < ec_method_operator_count(self->method); i++) {
    const ec_op *op = ec_method_operator(self->method, i);
    if (op && op->fn == ecpy_operator_kernel) Py_VISIT((PyObject *)op->user);
  }
  return 0;
}

static void free_slots(ecpy_slot *slots, size_t count) {
  for (size_t i = 0; slots && i < count; i++) Py_XDECREF((PyObject *)slots[i].descr);
  PyMem_Free(slots);
}

static void method_dealloc(PyObject *object) {
  ecpy_method *self = (ecpy_method *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->method) ecpy_without_gil(run_free, self->method);
  ec_trace_free(self->trace);
  ec_trace_free(self->record);
  ecpy_shared_release(self->shared);
  free_slots(self->inputs, self->input_count);
  free_slots(self->outputs, self->output_count);
  Py_CLEAR(self->meta);
  type->tp_free(object);
  Py_DECREF(type);
}

/* ---- calling ---- */

PyDoc_STRVAR(
    method_doc,
    "A method of a program, loaded by Program.load_method: it runs on NumPy arrays.\n\n"
    "    method.execute([x, y])    a list of outputs (the official call)\n"
    "    method.execute({'x': x})  the same, inputs by name\n"
    "    method(x, y)              one output as it is, several as a tuple\n\n"
    "Inputs are given in the program's order, one for each:\n\n"
    "- for a tensor: a NumPy array or scalar of the program's dtype and shape, any strides; a\n"
    "  Python number, or a list of them, which is converted to the program's dtype (an int fits a\n"
    "  float, a float no int); anything with __dlpack__ (a CPU torch.Tensor), the buffer protocol\n"
    "  or __array__. Arrays of another dtype are refused, never cast. An array with the program's\n"
    "  own memory layout is used in place, unless the program writes to it. bfloat16 is\n"
    "  ml_dtypes.bfloat16 where that package is installed, else uint16 holding the raw bits, and\n"
    "  flat bytes of the right size are taken for it;\n"
    "- for an int, float, bool or str: that value. It must equal the value that the method was\n"
    "  traced with, as in the official runtime;\n"
    "- for None: None.\n\n"
    "Outputs are new arrays that own their memory, with the program's memory layout as strides\n"
    "(or the arrays of out=), and None, int, float, bool, str, and lists of these.\n\n"
    "A method has its own memory and state; calls from several threads run one after the other,\n"
    "different methods run at the same time. The GIL is released while a method runs.\n\n"
    "Raises InvalidArgumentError (a ValueError: number, dtype, rank or kind of inputs),\n"
    "NotSupportedError (a shape that the program does not allow), InvalidStateError,\n"
    "OutOfResourcesError and MemoryAllocationFailedError (load_method's max_steps and max_bytes),\n"
    "and what operators and backends raise; messages name the input, or the instruction and\n"
    "operator. After an error the method can be used as before.\n\n"
    "A call in the main thread, and one that waits for another thread's, handles signals: what\n"
    "their handlers raise (KeyboardInterrupt) ends it, between two instructions at the latest.\n"
    "In a forked process a method is refused (InvalidStateError) that another thread was running\n"
    "when the process was forked.");

PyDoc_STRVAR(
    execute_doc,
    "execute($self, /, inputs, *, out=None)\n--\n\n"
    "Executes the method with the given inputs.\n\n"
    "Args:\n"
    "    inputs: A sequence of input values (see the class), or a dict of them by name:\n"
    "        {'x': x}, where the program has names, else 'input_0' and so on. A single array\n"
    "        counts as one input.\n"
    "    out: Arrays to write to: one array for a method with one output, or a list or tuple\n"
    "        with an array or None for each output. dtype and shape must be the output's; any\n"
    "        strides are allowed. They are the results that come back. Memory of inputs may be\n"
    "        used; after an error what they hold is undefined.\n\n"
    "Returns a list of output values.");

PyDoc_STRVAR(run_doc,
             "run($self, /, inputs, *, out=None)\n--\n\n"
             "Executes the method: `execute`, which is the official name, under a short one.");

enum { MANY = 16 }; /* items of a list that are held without a tuple for them */

/* Whether an object that is no list and no tuple is one input, and no sequence of inputs. */
static bool is_single(ecpy_method *self, PyObject *object) {
  return PyArray_Check(object) || PyArray_CheckAnyScalar(object) || PyUnicode_Check(object) ||
         object == Py_None || PyObject_CheckBuffer(object) ||
         PyObject_HasAttr(object, self->state->name_dlpack) ||
         PyObject_HasAttr(object, self->state->name_array_interface) ||
         PyObject_HasAttr(object, self->state->name_array);
}

/* A list may change while foreign code runs, so its items are held here. */
static PyObject *execute_list(ecpy_method *self, PyObject *list, PyObject *out) {
  PyObject *items[MANY] = {NULL};
  Py_ssize_t count = PyList_GET_SIZE(list);
  for (Py_ssize_t i = 0; i < count; i++) items[i] = Py_NewRef(PyList_GET_ITEM(list, i));
  PyObject *result = ecpy_method_run(self, items, (size_t)count, out, false);
  for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(items[i]);
  return result;
}

static PyObject *execute_inputs(ecpy_method *self, PyObject *inputs, PyObject *out);

static PyObject *execute_named(ecpy_method *self, PyObject *inputs, PyObject *out) {
  PyObject *what = PyTuple_Pack(2, self, inputs);
  PyObject *ordered = what ? ecpy_call_python("executorch_c._inputs", "by_name", what) : NULL;
  PyObject *result = ordered ? execute_inputs(self, ordered, out) : NULL;
  Py_XDECREF(ordered);
  Py_XDECREF(what);
  return result;
}

static PyObject *execute_inputs(ecpy_method *self, PyObject *inputs, PyObject *out) {
  if (PyList_Check(inputs) && PyList_GET_SIZE(inputs) <= MANY)
    return execute_list(self, inputs, out);
  if (PyTuple_Check(inputs))
    return ecpy_method_run(self, PySequence_Fast_ITEMS(inputs), (size_t)PyTuple_GET_SIZE(inputs),
                           out, false);
  if (!PyList_Check(inputs) && is_single(self, inputs))
    return ecpy_method_run(self, &inputs, 1, out, false);
  if (PyDict_Check(inputs)) return execute_named(self, inputs, out);
  if (PyAnySet_Check(inputs))
    return PyErr_Format(PyExc_TypeError, "inputs must be a sequence or a dict, not %.200s",
                        Py_TYPE(inputs)->tp_name);
  PyObject *tuple = PySequence_Tuple(inputs);
  PyObject *result = tuple ? execute_inputs(self, tuple, out) : NULL;
  Py_XDECREF(tuple);
  return result;
}

/* Puts keyword arguments into `inputs` and `out`; inputs NULL: the function has none. */
static int parse_keywords(const char *function, PyObject *const *values, PyObject *kwnames,
                          PyObject **inputs, PyObject **out) {
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, i);
    if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
      *out = values[i] == Py_None ? NULL : values[i];
    } else if (inputs && !*inputs && PyUnicode_CompareWithASCIIString(name, "inputs") == 0) {
      *inputs = values[i];
    } else {
      PyErr_Format(PyExc_TypeError, "%s got an unexpected keyword argument '%U'", function, name);
      return -1;
    }
  }
  return 0;
}

static PyObject *method_execute(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames) {
  PyObject *inputs = nargs ? args[0] : NULL, *out = NULL;
  if (nargs > 1)
    return PyErr_Format(PyExc_TypeError, "execute() takes one sequence of inputs, but got %zd "
                                         "positional arguments", nargs);
  if (kwnames && parse_keywords("execute()", args + nargs, kwnames, &inputs, &out)) return NULL;
  if (inputs) return execute_inputs((ecpy_method *)object, inputs, out);
  PyErr_SetString(PyExc_TypeError, "execute() missing 1 required argument: 'inputs'");
  return NULL;
}

PyDoc_STRVAR(mutating_doc, "_execute_mutating($self, inputs, /)\n--\n\n"
                           "Used by executorch_c.portable_lib: the outputs, and what the program\n"
                           "has made of inputs that it changes in place.");

static PyObject *method_mutating(PyObject *object, PyObject *inputs) {
  if (!PyTuple_Check(inputs)) return PyErr_Format(PyExc_TypeError, "inputs must be a tuple");
  return ecpy_method_run_mutating((ecpy_method *)object, PySequence_Fast_ITEMS(inputs),
                                  (size_t)PyTuple_GET_SIZE(inputs));
}

static PyObject *method_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames) {
  ecpy_method *self = (ecpy_method *)object;
  size_t nargs = (size_t)PyVectorcall_NARGS(nargsf);
  PyObject *out = NULL;
  if (kwnames && parse_keywords("Method()", args + nargs, kwnames, NULL, &out)) return NULL;
  PyObject *results = ecpy_method_run(self, args, nargs, out, true);
  if (!results || PyTuple_GET_SIZE(results) != 1) return results;
  PyObject *only = Py_NewRef(PyTuple_GET_ITEM(results, 0));
  Py_DECREF(results);
  return only;
}

/* ---- documented methods ---- */

PyObject *ecpy_method_get_meta(ecpy_method *self) {
  size_t index;
  ec_error err;
  ec_error_clear(&err);
  if (self->meta) return self->meta;
  const char *name = ec_method_name(self->method);
  if (ec_program_find_method(self->shared->program, name, &index, &err) != EC_OK)
    return ecpy_raise(self->state, &err);
  PyObject *meta = ecpy_method_meta_new(self->state, self->shared, index);
  if (meta && self->meta) /* another thread was faster */
    Py_DECREF(meta);
  else
    self->meta = meta;
  return self->meta;
}

static PyObject *metadata(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_XNewRef(ecpy_method_get_meta((ecpy_method *)self));
}

static PyObject *attribute_names(PyObject *self, void *Py_UNUSED(closure)) {
  return ecpy_attribute_names((ecpy_method *)self);
}

static PyObject *num_threads(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromSize_t(ec_method_threads(((ecpy_method *)self)->method));
}

PyDoc_STRVAR(
    get_attribute_doc,
    "get_attribute($self, /, name)\n--\n\n"
    "An attribute (a buffer or parameter with a name) as an array on the method's own memory.\n\n"
    "What the method writes shows in the array, and the other way round; arrays of constants are\n"
    "read-only. Waits while another thread runs the method. Raises NotFoundError (a KeyError)\n"
    "where there is no such attribute, InvalidStateError where it has no memory between calls.");

static PyObject *get_attribute(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", NULL};
  const char *name;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:get_attribute", names, &name)) return NULL;
  return ecpy_attribute_get((ecpy_method *)object, name);
}

PyDoc_STRVAR(set_attribute_doc,
             "set_attribute($self, /, name, array)\n--\n\n"
             "Copies an array of the attribute's dtype and shape into the attribute.\n\n"
             "Raises NotFoundError (no such attribute), InvalidArgumentError (another dtype or\n"
             "shape), InvalidStateError (a constant).");

static PyObject *set_attribute(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", "array", NULL};
  const char *name;
  PyObject *source;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO:set_attribute", names, &name, &source))
    return NULL;
  if (ecpy_attribute_set((ecpy_method *)object, name, source)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(reset_doc,
             "reset($self, /)\n--\n\n"
             "Puts all state (mutable buffers) back to what it was after loading, also what other\n"
             "methods of the program share.");

static PyObject *reset(PyObject *object, PyObject *Py_UNUSED(args)) {
  ecpy_method *self = (ecpy_method *)object;
  if (ecpy_method_lock(self)) return NULL;
  ec_method_reset(self->method);
  ecpy_method_unlock(self);
  Py_RETURN_NONE;
}

int ecpy_parse_seed(PyObject *object, uint64_t *seed) {
  PyObject *number = PyNumber_Index(object);
  *seed = number ? PyLong_AsUnsignedLongLongMask(number) : 0;
  Py_XDECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

PyDoc_STRVAR(manual_seed_doc,
             "manual_seed($self, seed, /)\n--\n\n"
             "Starts the random numbers of the method's operators (rand, dropout, ...) anew.\n\n"
             "Equal seeds give equal numbers on every machine; they are not torch's numbers.\n"
             "reset() leaves the generator alone.");

static PyObject *manual_seed(PyObject *object, PyObject *arg) {
  ecpy_method *self = (ecpy_method *)object;
  uint64_t seed;
  if (ecpy_parse_seed(arg, &seed) || ecpy_method_lock(self)) return NULL;
  ec_method_seed(self->method, seed);
  ecpy_method_unlock(self);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(
    memory_doc,
    "memory($self, /)\n--\n\n"
    "Bytes that the method holds, as a dictionary: `planned` (arenas), `shared` (of these, with\n"
    "other methods), `native` (values and instructions), `scratch` (largest need of a kernel so\n"
    "far), `heap` (unbound tensors, copied inputs). Memory of backends is not counted.");

static PyObject *memory(PyObject *object, PyObject *Py_UNUSED(args)) {
  ecpy_method *self = (ecpy_method *)object;
  ec_method_memory m;
  if (!self->fresh && ecpy_method_lock(self)) return NULL;
  ec_method_get_memory(self->method, &m);
  if (!self->fresh) ecpy_method_unlock(self);
  return Py_BuildValue("{s:n, s:n, s:n, s:n, s:n}", "planned", (Py_ssize_t)m.planned, "shared",
                       (Py_ssize_t)m.shared, "native", (Py_ssize_t)m.native, "scratch",
                       (Py_ssize_t)m.scratch, "heap", (Py_ssize_t)m.heap);
}

PyDoc_STRVAR(
    backend_report_doc,
    "backend_report($self, /)\n--\n\n"
    "What the backends say of the delegates of this method, as a list of a dictionary for each,\n"
    "in the file's order: `backend` (its name) and `figures` (a dictionary of ints, whose names\n"
    "are the backend's: bytes of packed weights, nodes, ...; empty where it reports nothing).");

static PyObject *backend_report(PyObject *object, PyObject *Py_UNUSED(args)) {
  return ecpy_method_report((ecpy_method *)object);
}

PyDoc_STRVAR(
    tracing_doc,
    "tracing($self, /, *, values=False, ranges=False, max_bytes=268435456)\n--\n\n"
    "Records what calls of this method do, in a with statement:\n\n"
    "    with method.tracing() as trace:\n"
    "        method.execute([x])\n"
    "    print(trace)\n\n"
    "trace is an executorch_c.trace.Trace, filled when the block ends: time and shapes of each\n"
    "instruction and of each node inside of delegates. Calls by other threads are recorded, too.\n"
    "Outside of such a block calls cost what they always do.\n\n"
    "Args:\n"
    "    values: Copy what instructions and nodes have computed, as well.\n"
    "    ranges: Find the range of whatever they take and give, and count NaNs and infinities.\n"
    "    max_bytes: Memory for the trace; what does not fit is counted and left out.\n\n"
    "Entering raises InvalidStateError where the method is being traced already.");

static PyObject *tracing(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"values", "ranges", "max_bytes", NULL};
  int values = 0, ranges = 0;
  Py_ssize_t max_bytes = 256 * 1024 * 1024;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ppn:tracing", names, &values, &ranges,
                                   &max_bytes))
    return NULL;
  if (max_bytes < 0) return PyErr_Format(PyExc_ValueError, "max_bytes is negative");
  PyObject *what = Py_BuildValue("OOOn", self, values ? Py_True : Py_False,
                                 ranges ? Py_True : Py_False, max_bytes);
  PyObject *made = what ? ecpy_call_python("executorch_c.trace", "_tracing", what) : NULL;
  Py_XDECREF(what);
  return made;
}

PyDoc_STRVAR(trace_start_doc, "_trace_start($self, values, max_bytes, ranges=False, /)\n--\n\n"
                              "Used by executorch_c.trace.");

static PyObject *trace_start(PyObject *self, PyObject *args) {
  int values, ranges = 0;
  Py_ssize_t max_bytes;
  if (!PyArg_ParseTuple(args, "pn|p:_trace_start", &values, &max_bytes, &ranges)) return NULL;
  const unsigned keeps = (values ? EC_TRACE_VALUES : 0u) | (ranges ? EC_TRACE_RANGES : 0u);
  if (ecpy_trace_start((ecpy_method *)self, keeps, (size_t)max_bytes)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(trace_stop_doc, "_trace_stop($self, /)\n--\n\nUsed by executorch_c.trace.");

static PyObject *trace_stop(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_trace_stop((ecpy_method *)self);
}

PyDoc_STRVAR(trace_take_doc, "_trace_take($self, /)\n--\n\nUsed by executorch_c.inspect.etdump.");

static PyObject *trace_take(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_trace_take((ecpy_method *)self);
}

static PyObject *method_repr(PyObject *object) {
  ecpy_method *self = (ecpy_method *)object;
  return PyUnicode_FromFormat("<executorch_c.Method '%s': %zu input%s, %zu output%s>",
                              ec_method_name(self->method), self->input_count,
                              self->input_count == 1 ? "" : "s", self->output_count,
                              self->output_count == 1 ? "" : "s");
}

PyDoc_STRVAR(html_doc, "_repr_html_($self, /)\n--\n\nA table for notebooks.");

static PyObject *method_html(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_call_python("executorch_c._render.objects", "method", self);
}

/* ---- tables and spec ---- */

#define FUNCTION(fn) (PyCFunction)(void (*)(void))(fn)

static PyMethodDef methods[] = {
    {"execute", FUNCTION(method_execute), METH_FASTCALL | METH_KEYWORDS, execute_doc},
    {"run", FUNCTION(method_execute), METH_FASTCALL | METH_KEYWORDS, run_doc},
    {"get_attribute", FUNCTION(get_attribute), METH_VARARGS | METH_KEYWORDS, get_attribute_doc},
    {"set_attribute", FUNCTION(set_attribute), METH_VARARGS | METH_KEYWORDS, set_attribute_doc},
    {"manual_seed", manual_seed, METH_O, manual_seed_doc},
    {"reset", reset, METH_NOARGS, reset_doc},
    {"memory", memory, METH_NOARGS, memory_doc},
    {"backend_report", backend_report, METH_NOARGS, backend_report_doc},
    {"tracing", FUNCTION(tracing), METH_VARARGS | METH_KEYWORDS, tracing_doc},
    {"_execute_mutating", method_mutating, METH_O, mutating_doc},
    {"_trace_start", trace_start, METH_VARARGS, trace_start_doc},
    {"_trace_stop", trace_stop, METH_NOARGS, trace_stop_doc},
    {"_trace_take", trace_take, METH_NOARGS, trace_take_doc},
    {"_repr_html_", method_html, METH_NOARGS, html_doc},
    {NULL, NULL, 0, NULL},
};

/* For tools that look at what is loaded. */
static PyObject *program(PyObject *object, void *Py_UNUSED(closure)) {
  ecpy_method *self = (ecpy_method *)object;
  return ecpy_program_new(self->state, self->shared, EC_NO_RECORD);
}

static PyGetSetDef getset[] = {
    {"metadata", metadata, NULL, PyDoc_STR("The MethodMeta: inputs, outputs, attributes."), NULL},
    {"num_threads", num_threads, NULL,
     PyDoc_STR("How many threads loops and delegates may use. 1 where the package was built\n"
               "without pthreadpool, whatever was asked for."), NULL},
    {"attribute_names", attribute_names, NULL,
     PyDoc_STR("The names of the attributes, as a tuple of strings."), NULL},
    {"_program", program, NULL, PyDoc_STR("The Program that it is of, as a new object."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ecpy_method, vectorcall), READONLY, NULL},
    {"_load_start_ns", T_ULONGLONG, offsetof(ecpy_method, load_start), READONLY, NULL},
    {"_load_ns", T_ULONGLONG, offsetof(ecpy_method, load_ns), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)method_doc},
    {Py_tp_dealloc, method_dealloc},
    {Py_tp_traverse, method_traverse},
    {Py_tp_repr, method_repr},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec ecpy_method_spec = {
    .name = "executorch_c.Method",
    .basicsize = sizeof(ecpy_method),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
