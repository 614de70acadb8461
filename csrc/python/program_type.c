/* Program: a loaded .pte and the methods that were loaded from it. */
#include "python/state.h"

#include "core/threads.h"
#include "python/errors.h"
#include "python/options.h"
#include "python/program.h"
#include "python/trace.h"

typedef struct ecpy_program {
  PyObject_HEAD
  ecpy_shared *shared;
  PyObject *methods; /* dict: name -> Method, for load_method(name) */
  size_t record_data;
  PyObject *recorded; /* list: all methods, where they are recorded */
} ecpy_program;

/* ---- lifecycle ---- */

PyObject *ecpy_program_new(ecpy_state *state, ecpy_shared *shared, size_t record_data) {
  PyTypeObject *type = state->program_type;
  ecpy_program *self = (ecpy_program *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->shared = ecpy_shared_take(shared);
  self->methods = PyDict_New();
  self->record_data = record_data;
  self->recorded = PyList_New(0);
  if (!self->methods || !self->recorded) Py_CLEAR(self);
  return (PyObject *)self;
}

static int program_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((ecpy_program *)self)->methods);
  Py_VISIT(((ecpy_program *)self)->recorded);
  return 0;
}

static int program_clear(PyObject *self) {
  Py_CLEAR(((ecpy_program *)self)->methods);
  Py_CLEAR(((ecpy_program *)self)->recorded);
  return 0;
}

static void program_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  program_clear(self); /* before the program: methods refer to it */
  ecpy_shared_release(((ecpy_program *)self)->shared);
  type->tp_free(self);
  Py_DECREF(type);
}

/* ---- documented methods ---- */

PyDoc_STRVAR(
    program_doc,
    "An ExecuTorch program, loaded from binary PTE data by Runtime.load_program.\n\n"
    "It can be used to load the methods defined by the program. It is immutable: any number of\n"
    "threads and methods may use it at once. Methods do not share state, apart from mutable\n"
    "buffers that were exported with share_mutable_buffers=True.");

static PyObject *method_names(PyObject *self, void *Py_UNUSED(closure)) {
  ec_program *program = ((ecpy_program *)self)->shared->program;
  PyObject *names = PySet_New(NULL);
  for (size_t i = 0; names && i < ec_program_method_count(program); i++) {
    PyObject *name = ecpy_text(ec_program_method_name(program, i));
    if (!name || PySet_Add(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

PyDoc_STRVAR(
    load_method_doc,
    "load_method($self, /, name, *, kernels='default', seed=None, backend_options=None,\n"
    "            num_threads=None, max_bytes=None, max_steps=None)\n--\n\n"
    "Loads a method from the program.\n\n"
    "Args:\n"
    "    name: The name of the method to load.\n"
    "    kernels: \"default\", or \"reference\" for the plain loops that the fast ones are\n"
    "        checked against.\n"
    "    seed: Where random operators start (an int; the method's manual_seed says more), or None\n"
    "        for a seed of the system's.\n"
    "    backend_options: Options for the method's delegates, by backend:\n"
    "        {\"XnnpackBackend\": {\"workspace_sharing_mode\": 1}}. Values are bool, int, float\n"
    "        or str; the backend says which names it knows. They come before what\n"
    "        backend_registry.set_option sets for all methods.\n"
    "    num_threads: How many threads large loops and delegates may use, the caller's own\n"
    "        included; None for Runtime.num_threads. Threads are shared by all methods with the\n"
    "        same number, and start when they are first needed. Results do not depend on it.\n"
    "    max_bytes: How many bytes the loading may allocate, and then each call: planned memory,\n"
    "        values, copies, what delegates ask the runtime for; scratch memory, tensors that\n"
    "        grow, results. None for the memory of this machine, and half of it for a call.\n"
    "    max_steps: How many steps the loading may take, and then each call. Loading: a value, an\n"
    "        instruction, an item of a list, 16 bytes that are copied or given to a delegate, 64\n"
    "        that it allocates.\n"
    "        A call: an instruction, and 4096 elements of the tensors that it takes and gives.\n"
    "        None for what no honest program needs: 10 million and 4 for each byte of the files;\n"
    "        10 million instructions in a call, whatever their tensors are.\n"
    "        Programs inside delegates count towards the same bytes and steps.\n\n"
    "Returns the Method. Loading a method again with default arguments returns the same object,\n"
    "which has its own memory and state; one with other arguments is a new one each time.\n\n"
    "Raises NotFoundError (a KeyError: no such method, or a backend that is not registered),\n"
    "OperatorMissingError (lists all missing operators), InvalidProgramError, NotSupportedError,\n"
    "InvalidArgumentError (options for a backend that the method does not use),\n"
    "MemoryAllocationFailedError, OutOfResourcesError (max_steps), and what backends raise.\n"
    "Python handles signals meanwhile: what their handlers raise ends the loading.");

static int parse_kernels(const char *kernels, bool *reference) {
  *reference = strcmp(kernels, "reference") == 0;
  if (*reference || strcmp(kernels, "default") == 0) return 0;
  PyErr_Format(PyExc_ValueError, "kernels must be 'default' or 'reference', not '%s'", kernels);
  return -1;
}

/* The method of a name that is loaded once, with default arguments. */
static PyObject *load_shared(ecpy_program *self, PyObject *name, const char *text,
                             const ec_method_options *options) {
  PyObject *found = PyDict_GetItemWithError(self->methods, name);
  if (found || PyErr_Occurred()) return Py_XNewRef(found);
  PyObject *method = ecpy_method_new(ecpy_state_of((PyObject *)self), self->shared, text, options);
  if (!method) return NULL;
  /* Another thread may have loaded it meanwhile: the first one counts. */
  found = PyDict_SetDefault(self->methods, name, method);
  Py_XINCREF(found);
  Py_DECREF(method);
  return found;
}

/* Takes a method and gives it: recorded where those of the program are. */
static PyObject *record(ecpy_program *self, PyObject *method) {
  if (!method || self->record_data == EC_NO_RECORD) return method;
  const int known = PySequence_Contains(self->recorded, method);
  if (known < 0 || ecpy_trace_record((ecpy_method *)method, self->record_data) ||
      (!known && PyList_Append(self->recorded, method)))
    Py_CLEAR(method);
  return method;
}

int ecpy_parse_threads(PyObject *object, size_t *threads) {
  const bool is_bool = PyBool_Check(object);
  PyObject *number = is_bool ? NULL : PyNumber_Index(object);
  if (is_bool) PyErr_SetString(PyExc_TypeError, "num_threads must be an int, not bool");
  int overflow = 0;
  long value = number ? PyLong_AsLongAndOverflow(number, &overflow) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) return -1;
  if (overflow || value < 1 || value > EC_MAX_THREADS) {
    PyErr_Format(PyExc_ValueError, "num_threads must be between 1 and %d, not %S", EC_MAX_THREADS,
                 object);
    return -1;
  }
  *threads = (size_t)value;
  return 0;
}

/* A limit of what loading and calls may cost; None leaves it as it is. */
static int parse_limit(const char *name, PyObject *object, uint64_t *limit) {
  if (object == Py_None) return 0;
  const bool is_bool = PyBool_Check(object);
  PyObject *number = is_bool ? NULL : PyNumber_Index(object);
  if (is_bool) PyErr_Format(PyExc_TypeError, "%s must be an int, not bool", name);
  int overflow = 0;
  const long long value = number ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) return -1;
  if (overflow < 0 || (!overflow && value < 1)) {
    PyErr_Format(PyExc_ValueError, "%s must be at least 1, not %S", name, object);
    return -1;
  }
  *limit = overflow ? INT64_MAX : (uint64_t)value;
  return 0;
}

static PyObject *load_method(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name",        "kernels",   "seed",      "backend_options",
                          "num_threads", "max_bytes", "max_steps", NULL};
  ecpy_program *self = (ecpy_program *)object;
  PyObject *name, *seed = Py_None, *backend_options = Py_None, *threads = Py_None;
  PyObject *max_bytes = Py_None, *max_steps = Py_None, *method = NULL;
  const char *kernels = "default";
  ec_method_options options = {0};
  ec_arena arena = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|$sOOOOO:load_method", names, &name, &kernels,
                                   &seed, &backend_options, &threads, &max_bytes, &max_steps))
    return NULL;
  if (parse_kernels(kernels, &options.reference_kernels) ||
      parse_limit("max_bytes", max_bytes, &options.max_bytes) ||
      parse_limit("max_steps", max_steps, &options.max_steps))
    return NULL;
  options.seeded = seed != Py_None;
  if (options.seeded && ecpy_parse_seed(seed, &options.seed)) return NULL;
  if (threads != Py_None && ecpy_parse_threads(threads, &options.threads)) return NULL;
  const char *text = PyUnicode_AsUTF8(name);
  if (text && ecpy_options_parse(backend_options, &arena, &options) == 0) {
    const bool own = options.reference_kernels || options.seeded || options.backend_count ||
                     options.threads || options.max_bytes || options.max_steps;
    method = own ? ecpy_method_new(ecpy_state_of(object), self->shared, text, &options)
                 : load_shared(self, name, text, &options);
  }
  ec_arena_deinit(&arena);
  return record(self, method);
}

PyDoc_STRVAR(metadata_doc,
             "metadata($self, /, method_name)\n--\n\n"
             "Gets the MethodMeta of a method without loading it.\n\n"
             "Raises NotFoundError (a KeyError) where there is no such method.");

static PyObject *metadata(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"method_name", NULL};
  ecpy_program *self = (ecpy_program *)object;
  const char *name;
  size_t index;
  ec_error err;
  ec_error_clear(&err);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:metadata", names, &name)) return NULL;
  ecpy_state *state = ecpy_state_of(object);
  if (ec_program_find_method(self->shared->program, name, &index, &err) != EC_OK)
    return ecpy_raise(state, &err);
  return ecpy_method_meta_new(state, self->shared, index);
}

PyDoc_STRVAR(
    requirements_doc,
    "requirements($self, /)\n--\n\n"
    "What the program needs, before anything is loaded.\n\n"
    "A dictionary: `operators` (name -> number of calls in the file, over all methods),\n"
    "`backends` (id -> bytes of payload), `missing_operators` and `missing_backends` (sorted\n"
    "lists of those that are not available here; both empty means that all methods can load).");

static PyObject *requirements(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_program_requirements(ecpy_state_of(self), ((ecpy_program *)self)->shared);
}

PyDoc_STRVAR(
    info_doc,
    "info($self, /)\n--\n\n"
    "All that the file says, as a dictionary of numbers, strings, lists and dictionaries:\n"
    "sizes, segments, named data, and for each method inputs, outputs, attributes, planned\n"
    "arenas, operators and delegates. `executorch-c info --json` prints it.");

static PyObject *info(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_program_info(ecpy_state_of(self), ((ecpy_program *)self)->shared);
}

PyDoc_STRVAR(structure_doc,
             "_structure($self, method_name, /)\n--\n\n"
             "Every value and instruction of a method, without loading it: see MethodStructure in\n"
             "executorch_c._types. Raises what loading the method would raise where the file is\n"
             "wrong, NotFoundError where there is no such method.");

static PyObject *structure(PyObject *self, PyObject *name) {
  const char *text = PyUnicode_AsUTF8(name);
  if (!text) return NULL;
  return ecpy_program_structure(ecpy_state_of(self), ((ecpy_program *)self)->shared, text);
}

PyDoc_STRVAR(delegate_doc,
             "_delegate($self, method_name, index, /)\n--\n\n"
             "Nodes and values inside of a delegate; None where its backend is not there or does\n"
             "not tell. Raises what making the delegate would raise where the payload is wrong.");

static PyObject *delegate(PyObject *self, PyObject *args) {
  const char *name;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(args, "sn:_delegate", &name, &index)) return NULL;
  return ecpy_program_delegate(ecpy_state_of(self), ((ecpy_program *)self)->shared, name, index);
}

PyDoc_STRVAR(payload_doc,
             "_payload($self, method_name, index, /)\n--\n\n"
             "The bytes that a delegate is made from.");

static PyObject *payload(PyObject *self, PyObject *args) {
  const char *name;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(args, "sn:_payload", &name, &index)) return NULL;
  return ecpy_program_payload(ecpy_state_of(self), ((ecpy_program *)self)->shared, name, index);
}

PyDoc_STRVAR(
    etdump_doc,
    "write_etdump_result_to_file($self, /, etdump_path, debug_buffer_path)\n--\n\n"
    "Writes what methods of this program did, loaded with enable_etdump=True, as an ETDump: their\n"
    "loading, and calls since the last such file. Values go to debug_buffer_path (or None) where\n"
    "debug_buffer_size was given; executorch_c.inspect.etdump says what is in the files.\n\n"
    "Raises InvalidStateError (a program without enable_etdump), ImportError (no flatbuffers),\n"
    "OSError.");

static PyObject *has_etdump(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(((ecpy_program *)self)->record_data != EC_NO_RECORD);
}

static PyObject *write_etdump(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"etdump_path", "debug_buffer_path", NULL};
  ecpy_program *self = (ecpy_program *)object;
  PyObject *path, *debug_path;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:write_etdump_result_to_file", names, &path,
                                   &debug_path))
    return NULL;
  if (self->record_data == EC_NO_RECORD)
    return ecpy_raise_format(ecpy_state_of(object), EC_INVALID_STATE,
                             "no ETDump: the program was loaded without enable_etdump=True");
  PyObject *recorded = PyList_GetSlice(self->recorded, 0, PyList_GET_SIZE(self->recorded));
  if (!recorded) return NULL;
  PyObject *what = PyTuple_Pack(3, recorded, path, self->record_data ? debug_path : Py_None);
  Py_DECREF(recorded);
  PyObject *done = what ? ecpy_call_python("executorch_c.inspect.etdump", "_write_recorded", what)
                        : NULL;
  Py_XDECREF(what);
  return done;
}

PyDoc_STRVAR(html_doc, "_repr_html_($self, /)\n--\n\nA table for notebooks.");

static PyObject *program_html(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_call_python("executorch_c._render.objects", "program", self);
}

static PyObject *program_repr(PyObject *self) {
  PyObject *names = method_names(self, NULL);
  PyObject *list = names ? PySequence_List(names) : NULL;
  PyObject *text = NULL;
  if (list && PyList_Sort(list) == 0)
    text = PyUnicode_FromFormat("<executorch_c.Program: methods %R>", list);
  Py_XDECREF(list);
  Py_XDECREF(names);
  return text;
}

/* ---- tables and spec ---- */

#define WITH_KEYWORDS(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"load_method", WITH_KEYWORDS(load_method), load_method_doc},
    {"metadata", WITH_KEYWORDS(metadata), metadata_doc},
    {"requirements", requirements, METH_NOARGS, requirements_doc},
    {"info", info, METH_NOARGS, info_doc},
    {"_structure", structure, METH_O, structure_doc},
    {"_delegate", delegate, METH_VARARGS, delegate_doc},
    {"_payload", payload, METH_VARARGS, payload_doc},
    {"write_etdump_result_to_file", WITH_KEYWORDS(write_etdump), etdump_doc},
    {"_repr_html_", program_html, METH_NOARGS, html_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"method_names", method_names, NULL,
     PyDoc_STR("The names of the program's methods, as a new set of strings."), NULL},
    {"has_etdump", has_etdump, NULL,
     PyDoc_STR("Whether it was loaded with enable_etdump=True."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)program_doc},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_traverse, program_traverse},
    {Py_tp_clear, program_clear},
    {Py_tp_repr, program_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_program_spec = {
    .name = "executorch_c.Program",
    .basicsize = sizeof(ecpy_program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
