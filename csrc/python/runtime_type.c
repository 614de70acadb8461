/* Runtime: the singleton that loads programs. */
#include "python/state.h"

#include "python/runtime_type.h"

#include "backend/registry.h"
#include "core/threads.h"
#include "python/arguments.h"
#include "python/backends.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/log.h"
#include "python/objects.h"
#include "python/program_object.h"
#include "python/program_ref.h"
#include "python/sources.h"
#include "trace/trace.h"

typedef struct ecpy_runtime {
  PyObject_HEAD
  PyObject *backend_registry;
  PyObject *operator_registry;
} ecpy_runtime;

/* ---- lifecycle ---- */

static PyObject *new_empty(PyTypeObject *type) { return ecpy_new_object(type); }

static PyObject *runtime_new(ecpy_state *state) {
  ecpy_runtime *self = (ecpy_runtime *)new_empty(state->runtime_type);
  if (!self) return NULL;
  self->backend_registry = new_empty(state->backend_registry_type);
  self->operator_registry = new_empty(state->operator_registry_type);
  if (!self->backend_registry || !self->operator_registry) Py_CLEAR(self);
  return (PyObject *)self;
}

static int runtime_traverse(PyObject *object, visitproc visit, void *arg) {
  ecpy_runtime *self = (ecpy_runtime *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->backend_registry);
  Py_VISIT(self->operator_registry);
  return 0;
}

static int runtime_clear(PyObject *object) {
  ecpy_runtime *self = (ecpy_runtime *)object;
  Py_CLEAR(self->backend_registry);
  Py_CLEAR(self->operator_registry);
  return 0;
}

static void runtime_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  runtime_clear(object);
  ecpy_free_object(object);
}

/* ---- documented methods ---- */

PyDoc_STRVAR(runtime_doc,
             "An instance of the ExecuTorch runtime environment.\n\n"
             "`Runtime.get()` returns the only instance. It loads and runs any number of programs\n"
             "and methods at once, from any thread.\n\n"
             "Attributes:\n"
             "    backend_registry: Registry for querying available hardware backends.\n"
             "    operator_registry: Registry for querying available operators/kernels.");

PyDoc_STRVAR(get_doc, "get($type, /)\n--\n\nReturn the Runtime singleton.");

static PyObject *runtime_get(PyObject *type, PyObject *Py_UNUSED(args)) {
  ecpy_state *state = PyType_GetModuleState((PyTypeObject *)type);
  if (!state->runtime) state->runtime = runtime_new(state);
  return Py_XNewRef(state->runtime);
}

PyDoc_STRVAR(
    load_program_doc,
    "load_program($self, /, data, *, verification=1, data_path=None, enable_etdump=False,\n"
    "             debug_buffer_size=0, mlock=False, share_mutable_buffers=True)\n--\n\n"
    "Load an ExecuTorch program from a PTE binary.\n\n"
    "Args:\n"
    "    data: A .pte, or a native package (.ptn), whose methods share state.\n"
    "        A path (str or os.PathLike), which is mapped: weights are not copied, and unused\n"
    "        parts are not read; or bytes, or a file mapped read-only by mmap.mmap, or a\n"
    "        memoryview of one of them, which are used in place and kept alive; or another buffer\n"
    "        (bytearray, an array), which is copied, because it might change; or a binary file\n"
    "        object, which is read.\n"
    "    verification: A Verification. Memory safety is always checked; InternalConsistency (the\n"
    "        default) adds the checks of the reference runtime.\n"
    "    data_path: One .ptd file (weights stored outside the program), as a path or as bytes, or\n"
    "        a sequence of them.\n"
    "    enable_etdump: Record calls of methods for write_etdump_result_to_file: up to 64 MiB per\n"
    "        method until a file is written; later calls are not recorded.\n"
    "    debug_buffer_size: With enable_etdump, the limit on bytes of recorded values per method;\n"
    "        values beyond it are dropped.\n"
    "    mlock: True locks the mapped file in memory (AccessFailedError if the system refuses),\n"
    "        \"try\" ignores a refusal.\n"
    "    share_mutable_buffers: Programs exported with\n"
    "        MemoryPlanningPass(share_mutable_buffers=True) plan mutable buffers at memory id\n"
    "        2 in every method. True allocates one copy for all of them, False one for each\n"
    "        loaded method. State of other programs is always private to each method.\n\n"
    "Returns the Program. Raises AccessFailedError (file), InvalidProgramError or\n"
    "InvalidArgumentError (not a program, damaged, another version), InvalidExternalDataError\n"
    "(data file), MemoryAllocationFailedError, TypeError.");

enum { MAX_DATA_FILES = 64 };

/* The arguments of load_program, collected before the GIL is released. */
typedef struct program_load {
  ec_program_options options;
  ec_source file, data[MAX_DATA_FILES];
  size_t data_count;
  size_t record_data; /* as for ecpy_program_new */
  ec_program *program;
  ec_status status;
  ec_error err;
} program_load;

static int parse_mlock(PyObject *value, ec_mlock *mlock) {
  if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, "try") == 0) {
    *mlock = EC_MLOCK_TRY;
    return 0;
  }
  if (!PyBool_Check(value)) {
    PyErr_Format(PyExc_TypeError, "`mlock` must be True, False or 'try', not %R", value);
    return -1;
  }
  *mlock = value == Py_True ? EC_MLOCK_REQUIRE : EC_MLOCK_NONE;
  return 0;
}

static int parse_verification(PyObject *value, ec_verification *level) {
  Py_ssize_t number = EC_VERIFY_INTERNAL_CONSISTENCY;
  if (value && ecpy_parse_size("verification", value, &number)) return -1;
  if (number != EC_VERIFY_MINIMAL && number != EC_VERIFY_INTERNAL_CONSISTENCY) {
    PyErr_Format(PyExc_ValueError, "`verification` must be a Verification, not %R", value);
    return -1;
  }
  *level = (ec_verification)number;
  return 0;
}

static int open_data_files(ecpy_state *state, PyObject *paths, ec_mlock mlock, program_load *load) {
  if (paths == Py_None) return 0;
  if (!PyList_Check(paths) && !PyTuple_Check(paths)) {
    if (ecpy_source_open(state, paths, mlock, &load->data[0])) return -1;
    load->data_count = 1;
    return 0;
  }
  PyObject *items = PySequence_Tuple(paths);
  if (!items) return -1;
  int rc = 0;
  for (Py_ssize_t i = 0; rc == 0 && i < PyTuple_GET_SIZE(items); i++) {
    if (load->data_count == MAX_DATA_FILES) {
      PyErr_Format(PyExc_ValueError, "`data_path` has more than %d files", MAX_DATA_FILES);
      rc = -1;
      break;
    }
    ec_source *out = &load->data[load->data_count];
    rc = ecpy_source_open(state, PyTuple_GET_ITEM(items, i), mlock, out);
    if (rc == 0) load->data_count++;
  }
  Py_DECREF(items);
  return rc;
}

static void run_open(void *arg) {
  program_load *load = arg;
  load->status = ec_program_open(&load->options, &load->file, load->data, load->data_count,
                                 &load->program, &load->err);
}

static void close_sources(program_load *load) {
  ec_source_close(&load->file);
  for (size_t i = 0; i < load->data_count; i++) ec_source_close(&load->data[i]);
}

/* Loads the backend that opens a file, if that is a package. */
static int find_package_backend(ecpy_state *state, const ec_source *file) {
  const char *what, *id = ec_backend_of_package(file->data, file->size, &what);
  return id ? ecpy_discover_for(state, id) : 0;
}

static PyObject *load_sources(ecpy_state *state, program_load *load, PyObject *data,
                              PyObject *data_path, ec_mlock mlock) {
  if (ecpy_source_open(state, data, mlock, &load->file)) return NULL;
  if (find_package_backend(state, &load->file) || open_data_files(state, data_path, mlock, load)) {
    close_sources(load);
    return NULL;
  }
  ecpy_without_gil(run_open, load);
  if (load->status != EC_OK) return ecpy_raise(state, &load->err);
  ecpy_program_ref *ref = ecpy_program_ref_new(load->program);
  PyObject *program = ref ? ecpy_program_new(state, ref, load->record_data) : NULL;
  ecpy_program_ref_release(ref);
  return program;
}

static PyObject *runtime_load_program(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"data",  "verification",          "data_path", "enable_etdump",
                          "debug_buffer_size", "mlock", "share_mutable_buffers", NULL};
  PyObject *data, *verification = NULL, *data_path = Py_None, *mlock_value = Py_False;
  PyObject *debug_bytes = NULL;
  int etdump = 0, share = 1;
  Py_ssize_t debug_buffer_size = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOpOOp:load_program", names, &data,
                                   &verification, &data_path, &etdump, &debug_bytes,
                                   &mlock_value, &share) ||
      (debug_bytes && ecpy_parse_size("debug_buffer_size", debug_bytes, &debug_buffer_size)))
    return NULL;
  ecpy_state *state = ecpy_state_of(self);
  ec_mlock mlock;
  ec_verification level;
  if (parse_mlock(mlock_value, &mlock) || parse_verification(verification, &level)) return NULL;
  if (debug_buffer_size < 0)
    return PyErr_Format(PyExc_ValueError, "`debug_buffer_size` is negative: %zd",
                        debug_buffer_size);
  program_load *load = PyMem_Calloc(1, sizeof *load);
  if (!load) return ecpy_no_memory("a program");
  load->options = (ec_program_options){.verification = level, .share_mutable_buffers = share != 0};
  load->record_data = etdump ? (size_t)debug_buffer_size : EC_NO_RECORD;
  const uint64_t start = ec_trace_now();
  PyObject *program = load_sources(state, load, data, data_path, mlock);
  PyMem_Free(load);
  return ecpy_log_made("program_loaded", program, data, start);
}

static PyObject *runtime_get_num_threads(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure)) {
  return PyLong_FromSize_t(ec_threads_default());
}

static int runtime_set_num_threads(PyObject *Py_UNUSED(self), PyObject *value,
                                   void *Py_UNUSED(closure)) {
  size_t threads = 0; /* del: unset */
  if (value && ecpy_parse_threads(value, &threads)) return -1;
  ec_threads_set_default(threads);
  return 0;
}

/* "<executorch_c.Runtime: 496 operators, backends [...], 2 threads>" */
static PyObject *runtime_repr(PyObject *object) {
  ecpy_runtime *self = (ecpy_runtime *)object;
  PyObject *operators = PyObject_GetAttrString(self->operator_registry, "operator_names");
  PyObject *backends = PyObject_GetAttrString(self->backend_registry, "registered_backend_names");
  const Py_ssize_t count = operators ? PyObject_Size(operators) : -1;
  PyObject *text = NULL;
  if (backends && count >= 0)
    text = PyUnicode_FromFormat("<executorch_c.Runtime: %zd operators, backends %R, %zu threads>",
                                count, backends, ec_threads_default());
  Py_XDECREF(operators);
  Py_XDECREF(backends);
  return text;
}

static PyObject *runtime_html(PyObject *self, PyObject *Py_UNUSED(args)) {
  return ecpy_call_python("executorch_c._render.objects", "runtime", self);
}

/* ---- tables and spec ---- */

PyDoc_STRVAR(html_doc, "_repr_html_($self, /)\n--\n\nReturn a table for notebooks.");

static PyMethodDef methods[] = {
    {"get", runtime_get, METH_CLASS | METH_NOARGS, get_doc},
    {"load_program", ECPY_KEYWORDS(runtime_load_program),
     load_program_doc},
    {"_repr_html_", runtime_html, METH_NOARGS, html_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"num_threads", runtime_get_num_threads, runtime_set_num_threads,
     PyDoc_STR("The number of threads of methods loaded from now on, unless load_method overrides\n"
               "it. The default is the number of CPUs of the process's affinity, limited to its\n"
               "CPU quota; `del` restores it. The setting belongs to the process. Always 1 if the\n"
               "package was built without pthreadpool."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"backend_registry", T_OBJECT_EX, offsetof(ecpy_runtime, backend_registry), READONLY,
     "Registry for querying available hardware backends."},
    {"operator_registry", T_OBJECT_EX, offsetof(ecpy_runtime, operator_registry), READONLY,
     "Registry for querying available operators/kernels."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)runtime_doc},
    {Py_tp_repr, runtime_repr},
    {Py_tp_dealloc, runtime_dealloc},
    {Py_tp_traverse, runtime_traverse},
    {Py_tp_clear, runtime_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec ecpy_runtime_spec = {
    .name = "executorch_c.Runtime",
    .basicsize = sizeof(ecpy_runtime),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
