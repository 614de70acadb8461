/* Program: a loaded .pte and the methods loaded from it. */
#include "python/state.h"

#include "python/program_type.h"

#include "core/threads.h"
#include "python/arguments.h"
#include "python/errors.h"
#include "python/info.h"
#include "python/method.h"
#include "python/method_meta_type.h"
#include "python/method_type.h"
#include "python/objects.h"
#include "python/kv_cache_type.h"
#include "python/options.h"
#include "python/program_object.h"
#include "python/program_ref.h"
#include "python/inspect.h"
#include "python/passes.h"
#include "python/trace.h"
#include "runtime/program.h"

/* ---- lifecycle ---- */

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
  PyObject_GC_UnTrack(self);
  program_clear(self); /* before the program, to which methods refer */
  ecpy_program_ref_release(((ecpy_program *)self)->ref);
  ecpy_free_object(self);
}

/* ---- documented methods ---- */

PyDoc_STRVAR(
    program_doc,
    "An ExecuTorch program, loaded from binary PTE data by Runtime.load_program.\n\n"
    "It loads the methods defined by the program. It is immutable: any number of threads and\n"
    "methods may use it at once. Methods do not share state, except mutable buffers exported with\n"
    "share_mutable_buffers=True.");

static PyObject *program_method_names(PyObject *self, void *Py_UNUSED(closure)) {
  ec_program *program = ((ecpy_program *)self)->ref->program;
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
    "            num_threads=None, max_bytes=None, max_steps=None, delegate_at_load=None,\n"
    "            passes=None, kv_cache=None)\n--\n\n"
    "Load a method from the program.\n\n"
    "Args:\n"
    "    name: The name of the method to load.\n"
    "    kernels: \"default\", or \"reference\" for the plain loops, the reference of the fast\n"
    "        ones.\n"
    "    seed: The initial seed of random operators (an int; see Method.manual_seed), or None for\n"
    "        the system's entropy.\n"
    "    backend_options: Options for the method's delegates, by backend:\n"
    "        {\"XnnpackBackend\": {\"workspace_sharing_mode\": 1}}. Values are bool, int, float\n"
    "        or str; the backend defines the names. They override the options of all methods\n"
    "        (backend_registry.set_option).\n"
    "    num_threads: Number of threads for large loops and delegates, the calling thread\n"
    "        included; None for Runtime.num_threads. All methods with the same number share their\n"
    "        threads, which start at first use. Results do not depend on it.\n"
    "    max_bytes: Limit on the bytes allocated by the load, and by each call: planned memory,\n"
    "        values, copies, memory that delegates request from the runtime; scratch memory,\n"
    "        tensors that grow, results. None for the memory of this machine, and half of it for\n"
    "        a call, in which tensors without bounds may grow by 512 MB, plus planned memory and\n"
    "        16 times the inputs.\n"
    "    max_steps: Limit on the steps of the load, and of each call. Steps of a load: a value,\n"
    "        an instruction, an item of a list, 16 bytes copied or passed to a delegate, 64 bytes\n"
    "        allocated by it. Steps of a call: an instruction, and 4096 elements of its arguments\n"
    "        and results. None for limits far above normal use: 10 million plus 4 for each byte\n"
    "        of the files; 10 million instructions in a call, whatever the size of their tensors.\n"
    "        Programs inside delegates count towards the same bytes and steps.\n"
    "    delegate_at_load: True to hand runs of operators that no delegate has to XNNPACK when\n"
    "        the method is loaded, where that pays; \"always\" wherever it is possible; \"each\"\n"
    "        for each of them by itself, in traced calls too, for validation; False to leave\n"
    "        them to the kernels, as kernels=\"reference\" does; None for the environment\n"
    "        variable EXECUTORCH_C_DELEGATE_AT_LOAD (1, always, each, 0), else True.\n"
    "    passes: The names of the passes that plan how calls are executed (Method.passes), to\n"
    "        find the one that makes a difference; None for those of the environment variable\n"
    "        EXECUTORCH_C_PASSES, separated by commas, else all. Graphs inside interpreted\n"
    "        delegates use the same passes.\n"
    "    kv_cache: The KVCache of a program whose attention is kvcache::update_and_attend: its\n"
    "        file has no cache (requirements() says if a program needs one); None for others.\n"
    "        Methods loaded with the same object share it.\n\n"
    "Returns the Method. Loading a method again with default arguments returns the same object,\n"
    "which has its own memory and state. Other arguments create a new one each time.\n\n"
    "Raises NotFoundError (a KeyError: no such method, or a backend that is not registered),\n"
    "OperatorMissingError (lists all missing operators), InvalidProgramError, NotSupportedError,\n"
    "InvalidArgumentError (options for a backend that the method does not use, or a KV cache),\n"
    "MemoryAllocationFailedError, OutOfResourcesError (max_steps), and errors of backends.\n"
    "Signals are handled during the load: an exception of a handler ends it.");

static int parse_kernels(const char *kernels, bool *reference) {
  *reference = strcmp(kernels, "reference") == 0;
  if (*reference || strcmp(kernels, "default") == 0) return 0;
  PyErr_Format(PyExc_ValueError, "`kernels` must be 'default' or 'reference', not '%s'", kernels);
  return -1;
}

/* Returns the choice of the environment, for tests of other programs. */
static ec_delegation default_delegation(void) {
  const char *text = getenv("EXECUTORCH_C_DELEGATE_AT_LOAD");
  if (!text) return EC_DELEGATE_WHERE_IT_PAYS;
  if (strcmp(text, "always") == 0) return EC_DELEGATE_ALWAYS;
  if (strcmp(text, "each") == 0) return EC_DELEGATE_EACH;
  return strcmp(text, "1") == 0 ? EC_DELEGATE_WHERE_IT_PAYS : EC_DELEGATE_NEVER;
}

static int parse_delegation(PyObject *value, ec_delegation *out) {
  const bool is_text = PyUnicode_Check(value);
  if (PyBool_Check(value)) {
    *out = value == Py_True ? EC_DELEGATE_WHERE_IT_PAYS : EC_DELEGATE_NEVER;
  } else if (is_text && PyUnicode_CompareWithASCIIString(value, "always") == 0) {
    *out = EC_DELEGATE_ALWAYS;
  } else if (is_text && PyUnicode_CompareWithASCIIString(value, "each") == 0) {
    *out = EC_DELEGATE_EACH;
  } else if (value != Py_None) {
    PyErr_Format(PyExc_ValueError,
                 "`delegate_at_load` must be True, False, 'always', 'each' or None, not %R", value);
    return -1;
  }
  return 0;
}

/* Returns the shared method of this name, loaded once with default arguments. */
static PyObject *load_shared(ecpy_program *self, PyObject *name, const char *text,
                             const ec_method_options *options) {
  PyObject *shared = PyDict_GetItemWithError(self->methods, name);
  if (shared || PyErr_Occurred()) return Py_XNewRef(shared);
  PyObject *method = ecpy_method_new(ecpy_state_of((PyObject *)self), self->ref, text, options);
  if (!method) return NULL;
  /* Another thread may have loaded it meanwhile: the first one is kept. */
  shared = Py_XNewRef(PyDict_GetItemWithError(self->methods, name));
  if (!shared && !PyErr_Occurred() && PyDict_SetItem(self->methods, name, method) == 0)
    return method;
  Py_DECREF(method);
  return shared;
}

/* Takes a method and returns it, recorded if the program's methods are. */
static PyObject *record_method(ecpy_program *self, PyObject *method) {
  if (!method || self->record_data == EC_NO_RECORD) return method;
  const int known = PySequence_Contains(self->recorded, method);
  if (known < 0 || ecpy_trace_record((ecpy_method *)method, self->record_data) ||
      (!known && PyList_Append(self->recorded, method)))
    Py_CLEAR(method);
  return method;
}

static PyObject *program_load_method(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name",        "kernels",   "seed",      "backend_options",
                          "num_threads", "max_bytes", "max_steps", "delegate_at_load",
                          "passes",      "kv_cache",  NULL};
  ecpy_program *self = (ecpy_program *)object;
  PyObject *name, *seed = Py_None, *backend_options = Py_None, *threads = Py_None;
  PyObject *max_bytes = Py_None, *max_steps = Py_None, *delegation = Py_None;
  PyObject *passes = Py_None, *kv_cache = Py_None, *method = NULL;
  const char *kernels = "default";
  const ec_delegation usual = default_delegation();
  ec_method_options options = {.delegation = usual};
  ec_arena arena = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|$sOOOOOOOO:load_method", names, &name,
                                   &kernels, &seed, &backend_options, &threads, &max_bytes,
                                   &max_steps, &delegation, &passes, &kv_cache))
    return NULL;
  if (parse_kernels(kernels, &options.reference_kernels) ||
      parse_delegation(delegation, &options.delegation) ||
      ecpy_parse_passes(passes, &options.skipped_passes) ||
      ecpy_parse_kv_cache(ecpy_state_of(object), kv_cache, &options.kv_cache) ||
      ecpy_parse_limit("max_bytes", max_bytes, &options.max_bytes) ||
      ecpy_parse_limit("max_steps", max_steps, &options.max_steps))
    return NULL;
  options.seeded = seed != Py_None;
  if (options.seeded && ecpy_parse_seed(seed, &options.seed)) return NULL;
  if (threads != Py_None && ecpy_parse_threads(threads, &options.threads)) return NULL;
  const char *text = ecpy_utf8(name);
  if (text && ecpy_options_parse(backend_options, &arena, &options) == 0) {
    const bool own = options.reference_kernels || options.seeded || options.backend_count ||
                     options.threads || options.max_bytes || options.max_steps ||
                     options.delegation != usual || passes != Py_None || options.kv_cache;
    method = own ? ecpy_method_new(ecpy_state_of(object), self->ref, text, &options)
                 : load_shared(self, name, text, &options);
  }
  ec_arena_deinit(&arena);
  return record_method(self, method);
}

PyDoc_STRVAR(metadata_doc,
             "metadata($self, /, method_name)\n--\n\n"
             "Return the MethodMeta of a method without loading it.\n\n"
             "Raises NotFoundError (a KeyError: no such method).");

static PyObject *program_metadata(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"method_name", NULL};
  ecpy_program *self = (ecpy_program *)object;
  const char *name;
  size_t index;
  ec_error err;
  ec_error_clear(&err);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:metadata", names, &name)) return NULL;
  ecpy_state *state = ecpy_state_of(object);
  if (ec_program_find_method(self->ref->program, name, &index, &err) != EC_OK)
    return ecpy_raise(state, &err);
  return ecpy_method_meta_new(state, self->ref, index);
}

PyDoc_STRVAR(
    requirements_doc,
    "requirements($self, /)\n--\n\n"
    "Return the operators and backends that the program needs, without loading it.\n\n"
    "A dictionary: `operators` (name -> number of calls in the file, over all methods),\n"
    "`backends` (id -> bytes of payload), `missing_operators`, `missing_backends` and\n"
    "`missing_devices` (sorted lists of the unavailable ones, the last one of memory that the\n"
    "program plans elsewhere; if all are empty, all methods can load), and `uses_kv_cache`: a\n"
    "call needs `load_method(kv_cache=)`.");

static PyObject *program_requirements(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_program_requirements(ecpy_state_of(self), ((ecpy_program *)self)->ref);
}

PyDoc_STRVAR(
    info_doc,
    "info($self, /)\n--\n\n"
    "Return the contents of the file as a dictionary of numbers, strings, lists and dictionaries:\n"
    "sizes, segments, named data, and for each method inputs, outputs, attributes, planned\n"
    "arenas, operators and delegates. `executorch-c info --json` prints it.");

static PyObject *program_info(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_program_info(ecpy_state_of(self), ((ecpy_program *)self)->ref);
}

PyDoc_STRVAR(structure_doc,
             "_structure($self, method_name, /)\n--\n\n"
             "Return every value and instruction of a method, without loading it: see\n"
             "MethodStructure in executorch_c._types. Raises the errors of loading the method if\n"
             "the file is invalid, NotFoundError (no such method).");

static PyObject *program_structure(PyObject *self, PyObject *name) {
  const char *text = ecpy_utf8(name);
  if (!text) return NULL;
  return ecpy_inspect_method(ecpy_state_of(self), ((ecpy_program *)self)->ref, text);
}

PyDoc_STRVAR(delegate_doc,
             "_delegate($self, method_name, index, /)\n--\n\n"
             "Return nodes and values inside a delegate, or None if its backend is missing or\n"
             "cannot describe it. Raises the errors of creating the delegate if the payload is\n"
             "invalid.");

static PyObject *program_delegate(PyObject *self, PyObject *args) {
  const char *name;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(args, "sn:_delegate", &name, &index)) return NULL;
  return ecpy_inspect_delegate(ecpy_state_of(self), ((ecpy_program *)self)->ref, name, index);
}

PyDoc_STRVAR(payload_doc,
             "_payload($self, method_name, index, /)\n--\n\n"
             "Return the payload of a delegate as bytes.");

static PyObject *program_payload(PyObject *self, PyObject *args) {
  const char *name;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(args, "sn:_payload", &name, &index)) return NULL;
  return ecpy_inspect_payload(ecpy_state_of(self), ((ecpy_program *)self)->ref, name, index);
}

PyDoc_STRVAR(named_data_doc,
             "_named_data($self, key, /)\n--\n\n"
             "Return named data as bytes; None if there is none of this key.");

static PyObject *program_named_data(PyObject *self, PyObject *key) {
  const char *text = PyUnicode_Check(key) ? ecpy_utf8(key) : NULL;
  ec_bytes bytes;
  if (PyErr_Occurred()) return NULL;
  if (!text || !ec_program_named_data(((ecpy_program *)self)->ref->program, text, &bytes))
    Py_RETURN_NONE;
  return PyBytes_FromStringAndSize((const char *)bytes.data, (Py_ssize_t)bytes.size);
}

PyDoc_STRVAR(
    etdump_doc,
    "write_etdump_result_to_file($self, /, etdump_path, debug_buffer_path)\n--\n\n"
    "Write an ETDump of this program, loaded with enable_etdump=True: the loading of its methods,\n"
    "and calls since the last such file. Values go to debug_buffer_path (or None) if\n"
    "debug_buffer_size was set; see executorch_c.inspect.etdump for the contents of the files.\n\n"
    "Raises InvalidStateError (a program without enable_etdump), ImportError (no flatbuffers),\n"
    "OSError.");

static PyObject *program_has_etdump(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(((ecpy_program *)self)->record_data != EC_NO_RECORD);
}

static PyObject *program_write_etdump(PyObject *object, PyObject *args, PyObject *kwargs) {
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
  PyObject *done = what ? ecpy_call_python("executorch_c.trace", "_write_recorded", what)
                        : NULL;
  Py_XDECREF(what);
  return done;
}

PyDoc_STRVAR(html_doc, "_repr_html_($self, /)\n--\n\nReturn a table for notebooks.");

static PyObject *program_html(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_call_python("executorch_c._render.objects", "program", self);
}

static PyObject *program_repr(PyObject *self) {
  PyObject *names = program_method_names(self, NULL);
  PyObject *list = names ? PySequence_List(names) : NULL;
  PyObject *text = NULL;
  if (list && PyList_Sort(list) == 0)
    text = PyUnicode_FromFormat("<executorch_c.Program: methods %R>", list);
  Py_XDECREF(list);
  Py_XDECREF(names);
  return text;
}

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"load_method", ECPY_KEYWORDS(program_load_method), load_method_doc},
    {"metadata", ECPY_KEYWORDS(program_metadata), metadata_doc},
    {"requirements", program_requirements, METH_NOARGS, requirements_doc},
    {"info", program_info, METH_NOARGS, info_doc},
    {"_structure", program_structure, METH_O, structure_doc},
    {"_delegate", program_delegate, METH_VARARGS, delegate_doc},
    {"_payload", program_payload, METH_VARARGS, payload_doc},
    {"_named_data", program_named_data, METH_O, named_data_doc},
    {"write_etdump_result_to_file", ECPY_KEYWORDS(program_write_etdump), etdump_doc},
    {"_repr_html_", program_html, METH_NOARGS, html_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"method_names", program_method_names, NULL,
     PyDoc_STR("The names of the program's methods, as a new set of strings."), NULL},
    {"has_etdump", program_has_etdump, NULL,
     PyDoc_STR("True if the program was loaded with enable_etdump=True."), NULL},
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
