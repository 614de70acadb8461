/* The shared program, and where its bytes come from. */
#include "python/state.h"

#include "python/program.h"

#include "python/backends.h"
#include "python/errors.h"

/* ---- shared programs --------------------------------------------------------------------- */

static void free_program(void *program) { ec_program_free(program); }

ecpy_program_ref *ecpy_program_ref_new(ec_program *program) {
  ecpy_program_ref *shared = PyMem_Malloc(sizeof *shared);
  if (!shared) {
    ecpy_without_gil(free_program, program);
    ecpy_no_memory("a program");
    return NULL;
  }
  *shared = (ecpy_program_ref){1, program};
  return shared;
}

ecpy_program_ref *ecpy_program_ref_retain(ecpy_program_ref *shared) {
  shared->refs++;
  return shared;
}

void ecpy_program_ref_release(ecpy_program_ref *shared) {
  if (!shared || --shared->refs) return;
  ecpy_without_gil(free_program, shared->program);
  PyMem_Free(shared);
}

PyObject *ecpy_text(const char *text) {
  if (!text) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *ecpy_int_tuple(const int64_t *items, size_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *item = PyLong_FromLongLong(items[i]);
    if (item)
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, item);
    else
      Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *ecpy_dim_order(const uint8_t *order, size_t rank) {
  int64_t items[EC_MAX_RANK];
  for (size_t d = 0; d < rank; d++) items[d] = order[d];
  return ecpy_int_tuple(items, rank);
}

void ecpy_append(PyObject **list, PyObject *item) {
  if (!item || (*list && PyList_Append(*list, item))) Py_CLEAR(*list);
  Py_XDECREF(item);
}

static bool lacks_something(const ec_method_info *info) {
  for (size_t i = 0; i < info->operator_count; i++)
    if (!info->operators[i].available) return true;
  for (size_t i = 0; i < info->delegate_count; i++)
    if (!info->delegates[i].registered) return true;
  return false;
}

int ecpy_describe(ecpy_state *state, ecpy_program_ref *shared, size_t index, ec_method_info *info) {
  ec_error err;
  ec_error_clear(&err);
  ec_status status = ec_program_describe(shared->program, index, info, &err);
  if (status == EC_OK && lacks_something(info) && !state->discovered) {
    ec_method_info_deinit(info);
    if (ecpy_discover(state)) return -1;
    status = ec_program_describe(shared->program, index, info, &err);
  }
  if (status == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

/* ---- sources ----------------------------------------------------------------------------- */

typedef struct open_file {
  ec_source *out;
  const char *path;
  ec_mlock mlock;
  ec_status status;
  ec_error err;
} open_file;

static void run_open_file(void *arg) {
  open_file *open = arg;
  open->status = ec_source_open_file(open->out, open->path, open->mlock, &open->err);
}

static int open_path(ecpy_state *state, PyObject *data, ec_mlock mlock, ec_source *out) {
  PyObject *path;
  if (!PyUnicode_FSConverter(data, &path)) return -1;
  open_file open = {.out = out, .path = PyBytes_AS_STRING(path), .mlock = mlock};
  ecpy_without_gil(run_open_file, &open); /* mlock reads the file */
  Py_DECREF(path);
  if (open.status == EC_OK) return 0;
  ecpy_raise(state, &open.err);
  return -1;
}

/* Programs may be freed by threads that do not hold the GIL. */
static void release_buffer(void *owner) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(owner);
  PyMem_Free(owner);
  PyGILState_Release(gil);
}

static int lend_buffer(ecpy_state *state, PyObject *data, ec_source *out) {
  Py_buffer *view = PyMem_Malloc(sizeof *view);
  if (!view) {
    ecpy_no_memory("a buffer that is lent");
    return -1;
  }
  if (PyObject_GetBuffer(data, view, PyBUF_SIMPLE)) {
    PyMem_Free(view);
    return -1;
  }
  ec_error err;
  ec_error_clear(&err);
  ec_status status =
      ec_source_open_buffer(out, view->buf, (size_t)view->len, release_buffer, view, &err);
  if (status == EC_OK) return 0;
  release_buffer(view);
  ecpy_raise(state, &err);
  return -1;
}

/* Whose memory a view shows; NULL: nobody's that is known. */
static PyObject *owner_of(PyObject *data) {
  while (data && PyMemoryView_Check(data)) data = PyMemoryView_GET_BASE(data);
  return data;
}

/* True for a mmap.mmap, by the module's own type, if the module was imported. */
static bool is_mapped_file(PyObject *object) {
  PyObject *name = PyUnicode_FromString("mmap");
  PyObject *module = name ? PyImport_GetModule(name) : NULL;
  PyObject *type = module ? PyObject_GetAttr(module, name) : NULL;
  const bool is = type == (PyObject *)Py_TYPE(object);
  Py_XDECREF(type);
  Py_XDECREF(module);
  Py_XDECREF(name);
  PyErr_Clear();
  return is;
}

/* True for a buffer that this process cannot write to; a read-only view is not enough. */
static bool is_fixed(PyObject *data) {
  Py_buffer view;
  PyObject *owner = owner_of(data);
  if (!owner) return false;
  if (PyBytes_CheckExact(owner)) return true;
  if (!is_mapped_file(owner) || PyObject_GetBuffer(owner, &view, PyBUF_SIMPLE)) {
    PyErr_Clear();
    return false;
  }
  const bool readonly = view.readonly;
  PyBuffer_Release(&view);
  return readonly;
}

/* Bytes that changed after they were verified would not be safe to read: what is neither bytes nor
 * a mapped file is copied. */
static int open_buffer(ecpy_state *state, PyObject *data, ec_source *out) {
  PyObject *bytes = is_fixed(data) ? Py_NewRef(data) : PyBytes_FromObject(data);
  int rc = bytes ? lend_buffer(state, bytes, out) : -1;
  Py_XDECREF(bytes);
  return rc;
}

static int open_read(ecpy_state *state, PyObject *file, ec_source *out) {
  PyObject *bytes = PyObject_CallMethod(file, "read", NULL);
  if (!bytes) return -1;
  int rc = -1;
  if (PyObject_CheckBuffer(bytes))
    rc = open_buffer(state, bytes, out);
  else
    PyErr_Format(PyExc_TypeError,
                 "Expected a binary file: read() gave %.200s, not bytes (open it with mode 'rb').",
                 Py_TYPE(bytes)->tp_name);
  Py_DECREF(bytes);
  return rc;
}

int ecpy_source_open(ecpy_state *state, PyObject *data, ec_mlock mlock, ec_source *out) {
  if (PyUnicode_Check(data) || PyObject_HasAttrString(data, "__fspath__"))
    return open_path(state, data, mlock, out);
  if (PyObject_CheckBuffer(data)) return open_buffer(state, data, out);
  if (PyObject_HasAttrString(data, "read")) return open_read(state, data, out);
  PyErr_Format(PyExc_TypeError,
               "Expected data to be bytes, bytearray, another buffer, a path to a file, or a "
               "file-like object, but got %.200s.",
               Py_TYPE(data)->tp_name);
  return -1;
}
