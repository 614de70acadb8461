/* Method: a loaded method that runs on arrays. */
#include "python/state.h"

#include "python/method_type.h"

#include "python/arguments.h"
#include "python/attributes.h"
#include "python/backends.h"
#include "python/call.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/interrupt.h"
#include "python/log.h"
#include "python/method.h"
#include "python/objects.h"
#include "python/operator_call.h"
#include "python/program_object.h"
#include "python/program_ref.h"
#include "python/python_backend.h"
#include "python/passes.h"
#include "python/report.h"
#include "python/state_copy.h"
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

/* Loads a method. As long as something is missing, discovers installed plug-ins stage by stage and
 * tries again, also if another thread has discovered them meanwhile. */
static int load_or_discover(ecpy_state *state, loading *l) {
  PyObject *cause = NULL; /* of a backend written in Python */
  ecpy_interrupt_init(&l->interrupt);
  for (ecpy_stage stage = state->discovered;; stage++) {
    if (ecpy_discover_until(state, stage)) return -1;
    l->options.backends_unknown = stage == ECPY_FOUND_NONE;
    ecpy_without_gil(run_load, l);
    cause = ecpy_fetch_exception();
    const bool missing = l->status == EC_NOT_FOUND || l->status == EC_OPERATOR_MISSING;
    if (!missing || stage == ECPY_FOUND_ALL) break;
    Py_CLEAR(cause);
  }
  const bool loaded = l->status == EC_OK && !l->interrupt.exception;
  if (loaded || ecpy_interrupt_raise(&l->interrupt)) Py_XDECREF(cause);
  else ecpy_raise_from(state, &l->err, cause);
  return loaded ? 0 : -1;
}

PyObject *ecpy_method_new(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                          const ec_method_options *options) {
  loading l = {.program = ref->program, .name = name, .options = *options};
  PyTypeObject *type = state->method_type;
  ecpy_method *self = ecpy_new_object(type);
  if (!self) return NULL;
  self->vectorcall = method_vectorcall;
  self->state = state;
  self->ref = ecpy_program_ref_retain(ref);
  const int rc = load_or_discover(state, &l);
  self->method = l.method;
  if (rc == 0) {
    self->load_start = l.start;
    self->load_ns = l.end - l.start;
    if (ecpy_method_read_slots(self) == 0) {
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
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->meta);
  Py_VISIT(self->alter);
  for (size_t i = 0; self->method && i < ec_method_operator_count(self->method); i++) {
    const ec_op *op = ec_method_operator(self->method, i);
    if (op && op->fn == ecpy_operator_kernel) Py_VISIT((PyObject *)op->user);
  }
  for (size_t i = 0; self->method && i < ec_method_delegate_count(self->method); i++) {
    void *handle;
    const ec_backend *backend = ec_method_delegate(self->method, i, &handle);
    Py_VISIT(ecpy_backend_object(backend, handle));
  }
  return 0;
}

static void method_dealloc(PyObject *object) {
  ecpy_method *self = (ecpy_method *)object;
  PyObject_GC_UnTrack(object);
  if (self->method) ecpy_without_gil(run_free, self->method);
  ec_trace_free(self->trace);
  ec_trace_free(self->record);
  ecpy_program_ref_release(self->ref);
  ecpy_method_free_slots(self);
  Py_CLEAR(self->meta);
  Py_CLEAR(self->alter);
  ecpy_free_object(object);
}

/* ---- calling ---- */

PyDoc_STRVAR(
    method_doc,
    "A method of a program, loaded by Program.load_method: it runs on NumPy arrays.\n\n"
    "    method.execute([x, y])    a list of outputs (the official call)\n"
    "    method.execute({'x': x})  the same, inputs by name\n"
    "    method(x, y)              a single output, or a tuple of several\n\n"
    "Inputs are passed in the program's order:\n\n"
    "- for a tensor: a NumPy array or scalar of the program's dtype and shape, any strides; a\n"
    "  Python number, or a list of them, which is cast to the program's dtype (int to float, not\n"
    "  float to int); anything with __dlpack__ (a CPU torch.Tensor), the buffer protocol or\n"
    "  __array__. Arrays of another dtype are refused, never cast. An array with the program's\n"
    "  own memory layout is used in place, unless the program writes to it. bfloat16\n"
    "  and float8 are those of ml_dtypes if that package is installed, else uint16 and uint8\n"
    "  holding the raw bits; flat bytes of the right size are accepted, too;\n"
    "- for an int, float, bool or str: a value equal to the traced one, as in the official\n"
    "  runtime;\n"
    "- for None: None.\n\n"
    "Outputs are new arrays that own their memory, with the program's memory layout as strides\n"
    "(or the arrays of out=), and None, int, float, bool, str, and lists of these.\n\n"
    "A method has its own memory and state. Calls from several threads are serialised; different\n"
    "methods run concurrently. The GIL is released while a method runs.\n\n"
    "Raises InvalidArgumentError (a ValueError: number, dtype, rank or kind of inputs),\n"
    "NotSupportedError (a shape that the program does not allow), InvalidStateError,\n"
    "OutOfResourcesError and MemoryAllocationFailedError (load_method's max_steps and max_bytes),\n"
    "and errors of operators and backends. Messages name the input, or the instruction and\n"
    "operator. After an error the method remains usable.\n\n"
    "A call in the main thread, running or waiting for the lock, handles signals: an exception of\n"
    "a handler (KeyboardInterrupt) ends it, at the next instruction at the latest. A forked\n"
    "process refuses a method that another thread was running during the fork\n"
    "(InvalidStateError).");

/* True if an object, neither list nor tuple, is a single input instead of a sequence of inputs. */
static bool is_single(ecpy_method *self, PyObject *object) {
  return PyArray_Check(object) || PyArray_CheckAnyScalar(object) || PyUnicode_Check(object) ||
         object == Py_None || PyObject_CheckBuffer(object) ||
         PyObject_HasAttr(object, self->state->name_dlpack) ||
         PyObject_HasAttr(object, self->state->name_array_interface) ||
         PyObject_HasAttr(object, self->state->name_array);
}

enum { STACK_ITEMS = 16 };

/* Executes with the items of a list or tuple, which are held: foreign code may change the list. */
static PyObject *execute_items(ecpy_method *self, PyObject *inputs, PyObject *out, bool mutating) {
  PyObject *few[STACK_ITEMS], **items = few;
  const bool is_list = PyList_Check(inputs);
  const Py_ssize_t count = is_list ? PyList_GET_SIZE(inputs) : PyTuple_GET_SIZE(inputs);
  if (count > STACK_ITEMS) items = PyMem_New(PyObject *, (size_t)count);
  if (!items) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++)
    items[i] = Py_NewRef(is_list ? PyList_GET_ITEM(inputs, i) : PyTuple_GET_ITEM(inputs, i));
  PyObject *result = mutating ? ecpy_method_run_mutating(self, items, (size_t)count)
                              : ecpy_method_run(self, items, (size_t)count, out, false);
  for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(items[i]);
  if (items != few) PyMem_Free(items);
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
  if (PyList_Check(inputs) || PyTuple_Check(inputs))
    return execute_items(self, inputs, out, false);
  if (is_single(self, inputs)) return ecpy_method_run(self, &inputs, 1, out, false);
  if (PyDict_Check(inputs)) return execute_named(self, inputs, out);
  if (PyAnySet_Check(inputs))
    return PyErr_Format(PyExc_TypeError, "`inputs` must be a sequence or a dict, not %.200s",
                        ecpy_type_name(inputs));
  PyObject *tuple = PySequence_Tuple(inputs);
  PyObject *result = tuple ? execute_inputs(self, tuple, out) : NULL;
  Py_XDECREF(tuple);
  return result;
}

PyDoc_STRVAR(
    execute_doc,
    "execute($self, /, inputs, *, out=None)\n--\n\n"
    "Execute the method with the given inputs.\n\n"
    "Args:\n"
    "    inputs: A sequence of input values (see the class), or a dict of them by name:\n"
    "        {'x': x}, with the program's names, or 'input_0' and so on if it has none. A\n"
    "        single array counts as one input.\n"
    "    out: Arrays for the results: one array for a method with one output, or a list or tuple\n"
    "        with an array or None for each output. dtype and shape must be the output's; any\n"
    "        strides are allowed. The returned results are these arrays. They may share memory\n"
    "        with inputs. After an error their contents are undefined.\n\n"
    "Returns a list of output values.");

PyDoc_STRVAR(run_doc,
             "run($self, /, inputs, *, out=None)\n--\n\n"
             "Execute the method: a short name for `execute`, the official one.");

/* Parses keyword arguments into `inputs` and `out`. inputs NULL: the function has no such
 * argument. */
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
                           "Return the outputs, and the values of inputs that the program changed\n"
                           "in place. Used by executorch_c.portable_lib.");

static PyObject *method_mutating(PyObject *object, PyObject *inputs) {
  if (!PyTuple_Check(inputs)) return PyErr_Format(PyExc_TypeError, "`inputs` must be a tuple");
  return execute_items((ecpy_method *)object, inputs, NULL, true);
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

static PyObject *method_metadata(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_XNewRef(ecpy_method_get_meta((ecpy_method *)self));
}

static PyObject *method_attribute_names(PyObject *self, void *Py_UNUSED(closure)) {
  return ecpy_attribute_names((ecpy_method *)self);
}

static PyObject *method_num_threads(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromSize_t(ec_method_threads(((ecpy_method *)self)->method));
}

PyDoc_STRVAR(
    get_attribute_doc,
    "get_attribute($self, /, name)\n--\n\n"
    "Return a named buffer or parameter as an array on the method's memory.\n\n"
    "Writes of the method are visible in the array, and vice versa. Arrays of constants are\n"
    "read-only. Waits while another thread runs the method. Raises NotFoundError (a KeyError: no\n"
    "such attribute), InvalidStateError (an attribute without memory between calls).");

static PyObject *method_get_attribute(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", NULL};
  const char *name;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:get_attribute", names, &name)) return NULL;
  return ecpy_attribute_get((ecpy_method *)object, name);
}

PyDoc_STRVAR(set_attribute_doc,
             "set_attribute($self, /, name, array)\n--\n\n"
             "Copy an array of the attribute's dtype and shape into the attribute.\n\n"
             "Raises NotFoundError (no such attribute), InvalidArgumentError (another dtype or\n"
             "shape), InvalidStateError (a constant).");

static PyObject *method_set_attribute(PyObject *object, PyObject *args, PyObject *kwargs) {
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
             "Reset all state (mutable buffers) to that after loading, including state shared\n"
             "with other methods of the program.");

static PyObject *method_reset(PyObject *object, PyObject *Py_UNUSED(args)) {
  ecpy_method *self = (ecpy_method *)object;
  if (ecpy_method_lock(self)) return NULL;
  ec_method_reset(self->method);
  ecpy_method_unlock(self);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(
    get_state_doc,
    "get_state($self, /)\n--\n\n"
    "Return a copy of all state (mutable buffers) as a one-dimensional array of uint8: the memory\n"
    "that a call reads before it overwrites it, including state shared with other methods of the\n"
    "program. Its length is constant; its order is that of this loaded method.\n\n"
    "Waits while another thread runs the method.");

static PyObject *method_get_state(PyObject *object, PyObject *Py_UNUSED(args)) {
  return ecpy_state_get((ecpy_method *)object);
}

PyDoc_STRVAR(set_state_doc,
             "set_state($self, state, /)\n--\n\n"
             "Restore the state from the result of get_state(), or another contiguous buffer.\n\n"
             "Raises InvalidArgumentError for another number of bytes, TypeError or BufferError\n"
             "for an object without a contiguous buffer.");

static PyObject *method_set_state(PyObject *object, PyObject *state) {
  if (ecpy_state_set((ecpy_method *)object, state)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(manual_seed_doc,
             "manual_seed($self, seed, /)\n--\n\n"
             "Reseed the random generator of the method's operators (rand, dropout, ...).\n\n"
             "Equal seeds give equal numbers on every machine; they differ from torch's.\n"
             "reset() does not affect the generator.");

static PyObject *method_manual_seed(PyObject *object, PyObject *arg) {
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
    "Return the bytes held by the method as a dictionary: `planned` (arenas), `shared` (the part\n"
    "shared with other methods), `native` (values and instructions), `merged` (of copies\n"
    "whose operand and result share it), `folded` (constants\n"
    "computed at load), `packed` (weights of products, packed in the first call), `recorded`\n"
    "(loops of small calls, recorded in the first call), `scratch` (the largest scratch memory\n"
    "of a kernel so far), `heap` (unbound tensors, copied inputs).\n"
    "Memory of backends is not included.");

static PyObject *method_memory(PyObject *object, PyObject *Py_UNUSED(args)) {
  ecpy_method *self = (ecpy_method *)object;
  ec_method_memory m;
  if (!self->fresh && ecpy_method_lock(self)) return NULL;
  ec_method_get_memory(self->method, &m);
  if (!self->fresh) ecpy_method_unlock(self);
  return Py_BuildValue("{s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "planned",
                       (Py_ssize_t)m.planned,
                       "shared", (Py_ssize_t)m.shared, "native", (Py_ssize_t)m.native, "merged",
                       (Py_ssize_t)m.merged, "folded",
                       (Py_ssize_t)m.folded, "packed", (Py_ssize_t)m.packed, "recorded",
                       (Py_ssize_t)m.recorded, "scratch", (Py_ssize_t)m.scratch,
                       "heap", (Py_ssize_t)m.heap);
}

PyDoc_STRVAR(
    undelegated_doc,
    "undelegated($self, /)\n--\n\n"
    "Return why calls of operators were not delegated when the method was loaded: a list of\n"
    "dictionaries with `operator`, `reason` (a few words) and `calls`. Empty unless the method\n"
    "was loaded with delegate_at_load. Calls that are computed at load are not in it.");

static PyObject *method_undelegated(PyObject *object, PyObject *Py_UNUSED(args)) {
  return ecpy_method_undelegated((ecpy_method *)object);
}

PyDoc_STRVAR(
    passes_doc,
    "passes($self, /)\n--\n\n"
    "Return the passes that planned the calls of this method: a list of dictionaries in their\n"
    "order, with `name`, `purpose` (a few words), `ran` (False if load_method(passes=...) left it\n"
    "out, or the method does not meet its conditions) and `calls` (the number of instructions\n"
    "that execute differently because of it). A traced call executes the instructions.");

PyDoc_STRVAR(
    backend_report_doc,
    "backend_report($self, /)\n--\n\n"
    "Return statistics of this method's delegates, reported by their backends: a list of\n"
    "dictionaries in the file's order, then those made at load, with `backend` (its name),\n"
    "`calls_delegated_at_load` (the number of operator calls that it replaces; 0 for one in the\n"
    "file), `delegated_at_load` (these calls by operator, a dictionary),\n"
    "`nested_delegated_at_load` (of an interpreted delegate: calls of its payload's program that\n"
    "were delegated at load, by backend: a dictionary) and `figures` (a dictionary of ints with\n"
    "names defined by the backend: bytes of packed weights, nodes, ...; empty if it reports\n"
    "none).");

static PyObject *method_backend_report(PyObject *object, PyObject *Py_UNUSED(args)) {
  return ecpy_method_report((ecpy_method *)object);
}

PyDoc_STRVAR(
    tracing_doc,
    "tracing($self, /, *, values=False, ranges=False, max_bytes=268435456, alter=None)\n--\n\n"
    "Record the calls of this method, in a with statement:\n\n"
    "    with method.tracing() as trace:\n"
    "        method.execute([x])\n"
    "    print(trace)\n\n"
    "trace is an executorch_c.trace.Trace, filled at the end of the block: time and shapes of\n"
    "each instruction and of each node inside delegates. Calls by other threads are recorded,\n"
    "too. Calls outside such a block have no extra cost.\n\n"
    "Args:\n"
    "    values: Also copy the results of instructions and nodes.\n"
    "    ranges: Also compute ranges of all arguments and results, and count NaNs and infinities.\n"
    "    max_bytes: Memory for the trace and its Python objects. Data beyond it is counted and\n"
    "        dropped: see dropped_events and dropped_values.\n"
    "    alter: A function of (executorch_c.trace.Result, array), called with each tensor that an\n"
    "        instruction or a node inside a delegate computes. It may change the array, and the\n"
    "        call goes on with it. A view of an input or a constant is read-only. Of engines that\n"
    "        run as a whole, only outputs change.\n\n"
    "Leaving the block raises what `alter` raised; it is not called again after that.\n"
    "Entering raises InvalidStateError if the method is already being traced.");

static PyObject *method_tracing(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"values", "ranges", "max_bytes", "alter", NULL};
  int values = 0, ranges = 0;
  PyObject *most = NULL, *alter = Py_None;
  Py_ssize_t max_bytes = 256 * 1024 * 1024;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ppOO:tracing", names, &values, &ranges,
                                   &most, &alter) ||
      (most && ecpy_parse_size("max_bytes", most, &max_bytes)))
    return NULL;
  if (max_bytes < 0)
    return PyErr_Format(PyExc_ValueError, "`max_bytes` is negative: %zd", max_bytes);
  if (alter != Py_None && !PyCallable_Check(alter))
    return PyErr_Format(PyExc_TypeError, "`alter` must be a function, not %.200s",
                        ecpy_type_name(alter));
  PyObject *what = Py_BuildValue("OOOnO", self, values ? Py_True : Py_False,
                                 ranges ? Py_True : Py_False, max_bytes, alter);
  PyObject *made = what ? ecpy_call_python("executorch_c.trace", "_tracing", what) : NULL;
  Py_XDECREF(what);
  return made;
}

PyDoc_STRVAR(trace_start_doc,
             "_trace_start($self, values, max_bytes, ranges=False, alter=None, /)\n--\n\n"
             "Start a trace, for executorch_c.trace.");

PyDoc_STRVAR(trace_stop_doc,
             "_trace_stop($self, /)\n--\n\nReturn the trace, for executorch_c.trace.");

static PyObject *method_trace_stop(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_trace_stop((ecpy_method *)self);
}

PyDoc_STRVAR(trace_drain_doc, "_trace_drain($self, /)\n--\n\nFor executorch_c.inspect.etdump.");

static PyObject *method_trace_drain(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_trace_drain((ecpy_method *)self);
}

static PyObject *method_repr(PyObject *object) {
  ecpy_method *self = (ecpy_method *)object;
  PyObject *name = ecpy_text(ec_method_name(self->method));
  if (!name) return NULL;
  Py_SETREF(name, PyUnicode_FromFormat("<executorch_c.Method %R: %zu input%s, %zu output%s>", name,
                                       self->input_count, self->input_count == 1 ? "" : "s",
                                       self->output_count, self->output_count == 1 ? "" : "s"));
  return name;
}

PyDoc_STRVAR(html_doc, "_repr_html_($self, /)\n--\n\nReturn a table for notebooks.");

static PyObject *method_html(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_call_python("executorch_c._render.objects", "method", self);
}

/* ---- tables and spec ---- */

#define FUNCTION(fn) (PyCFunction)(void (*)(void))(fn)

static PyMethodDef methods[] = {
    {"execute", FUNCTION(method_execute), METH_FASTCALL | METH_KEYWORDS, execute_doc},
    {"run", FUNCTION(method_execute), METH_FASTCALL | METH_KEYWORDS, run_doc},
    {"get_attribute", FUNCTION(method_get_attribute), METH_VARARGS | METH_KEYWORDS,
     get_attribute_doc},
    {"set_attribute", FUNCTION(method_set_attribute), METH_VARARGS | METH_KEYWORDS,
     set_attribute_doc},
    {"get_state", method_get_state, METH_NOARGS, get_state_doc},
    {"set_state", method_set_state, METH_O, set_state_doc},
    {"manual_seed", method_manual_seed, METH_O, manual_seed_doc},
    {"reset", method_reset, METH_NOARGS, reset_doc},
    {"memory", method_memory, METH_NOARGS, memory_doc},
    {"passes", ecpy_method_passes, METH_NOARGS, passes_doc},
    {"undelegated", method_undelegated, METH_NOARGS, undelegated_doc},
    {"backend_report", method_backend_report, METH_NOARGS, backend_report_doc},
    {"tracing", FUNCTION(method_tracing), METH_VARARGS | METH_KEYWORDS, tracing_doc},
    {"_execute_mutating", method_mutating, METH_O, mutating_doc},
    {"_trace_start", ecpy_trace_start, METH_VARARGS, trace_start_doc},
    {"_trace_stop", method_trace_stop, METH_NOARGS, trace_stop_doc},
    {"_trace_drain", method_trace_drain, METH_NOARGS, trace_drain_doc},
    {"_repr_html_", method_html, METH_NOARGS, html_doc},
    {NULL, NULL, 0, NULL},
};

/* Returns the Program, for tools that inspect loaded methods. */
static PyObject *method_program(PyObject *object, void *Py_UNUSED(closure)) {
  ecpy_method *self = (ecpy_method *)object;
  return ecpy_program_new(self->state, self->ref, EC_NO_RECORD);
}

static PyObject *method_delegation(PyObject *object, void *Py_UNUSED(closure)) {
  switch (ec_method_delegation(((ecpy_method *)object)->method)) {
  case EC_DELEGATE_ALWAYS: return PyUnicode_FromString("always");
  case EC_DELEGATE_EACH: return PyUnicode_FromString("each");
  case EC_DELEGATE_WHERE_IT_PAYS: Py_RETURN_TRUE;
  default: Py_RETURN_FALSE;
  }
}

static PyGetSetDef getset[] = {
    {"metadata", method_metadata, NULL, PyDoc_STR("The MethodMeta: inputs, outputs, attributes."),
     NULL},
    {"num_threads", method_num_threads, NULL,
     PyDoc_STR("The number of threads for loops and delegates. Always 1 if the package was built\n"
               "without pthreadpool."), NULL},
    {"attribute_names", method_attribute_names, NULL,
     PyDoc_STR("The names of the attributes, as a tuple of strings."), NULL},
    {"_delegate_at_load", method_delegation, NULL, PyDoc_STR("As for Program.load_method."), NULL},
    {"_program", method_program, NULL, PyDoc_STR("The method's Program, as a new object."),
     NULL},
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
