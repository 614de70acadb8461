/* Bytes of programs and data files from a path, a buffer, or a file object. */
#include "python/state.h"

#include "python/sources.h"

#include <limits.h>

#include "format/kind.h"
#include "python/errors.h"
#include "python/gil.h"

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

/* Releases a buffer. Threads without the GIL may free programs. */
static void release_buffer(void *owner) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(owner);
  PyMem_Free(owner);
  PyGILState_Release(gil);
}

static int lend_buffer(ecpy_state *state, PyObject *data, ec_source *out) {
  Py_buffer *view = PyMem_Malloc(sizeof *view);
  if (!view) {
    ecpy_no_memory("a borrowed buffer");
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

/* Returns the owner of the memory of a view, which keeps it alive; NULL if unknown. */
static PyObject *owner_of(PyObject *data) {
  while (data && PyMemoryView_Check(data)) {
    data = PyObject_GetAttrString(data, "obj");
    Py_XDECREF(data);
  }
  PyErr_Clear();
  return data;
}

/* True for a mmap.mmap, by the module's own type if it was imported. */
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

/* True for a buffer that this process cannot write to. A read-only view is not enough. */
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

/* Opens a buffer. Anything but bytes and mapped files is copied, because bytes that change after
 * the verification are unsafe to read. */
static int open_buffer(ecpy_state *state, PyObject *data, ec_source *out) {
  PyObject *bytes = is_fixed(data) ? Py_NewRef(data) : PyBytes_FromObject(data);
  int rc = bytes ? lend_buffer(state, bytes, out) : -1;
  Py_XDECREF(bytes);
  return rc;
}

/* Returns the descriptor of an open file, or -1 for another object with a method `read`. */
static int descriptor_of(PyObject *file) {
  PyObject *number = PyObject_CallMethod(file, "fileno", NULL);
  const long fd = number && PyLong_Check(number) ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  PyErr_Clear();
  return fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
}

/* Refuses open devices. Sets `is_stream` for a pipe or socket. */
static int check_open(ecpy_state *state, PyObject *file, bool *is_stream) {
  const int fd = descriptor_of(file);
  if (fd < 0) return 0;
  PyObject *name = PyObject_GetAttrString(file, "name");
  PyErr_Clear();
  PyObject *shown = name ? PyObject_Str(name) : NULL;
  const char *text = shown ? PyUnicode_AsUTF8AndSize(shown, NULL) : NULL;
  PyErr_Clear();
  ec_error err;
  ec_error_clear(&err);
  const ec_status status = ec_source_check_open(fd, text ? text : "?", is_stream, &err);
  Py_XDECREF(shown);
  Py_XDECREF(name);
  if (status == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

enum { STREAM_PART = 1 << 20, STREAM_PARTS = 1 << 11 };
static const Py_ssize_t STREAM_BYTES = (Py_ssize_t)STREAM_PART * (STREAM_PARTS - 1);

/* Returns all bytes of a pipe, up to a limit. */
static PyObject *read_stream(PyObject *file) {
  PyObject *all = PyByteArray_FromStringAndSize(NULL, 0);
  while (all) {
    PyObject *part = PyObject_CallMethod(file, "read", "n", (Py_ssize_t)STREAM_PART);
    if (!part || !PyObject_CheckBuffer(part)) {
      Py_DECREF(all);
      return part; /* an exception, or text */
    }
    const Py_ssize_t before = PyByteArray_Size(all);
    Py_SETREF(all, PySequence_InPlaceConcat(all, part));
    Py_DECREF(part);
    if (!all || PyByteArray_Size(all) == before) break;
    if (PyByteArray_Size(all) <= STREAM_BYTES) continue;
    PyErr_Format(PyExc_ValueError, "A pipe has more than %zd bytes.", STREAM_BYTES);
    Py_CLEAR(all);
  }
  return all;
}

static int open_read(ecpy_state *state, PyObject *file, ec_source *out) {
  bool is_stream = false;
  if (check_open(state, file, &is_stream)) return -1;
  PyObject *bytes = is_stream ? read_stream(file) : PyObject_CallMethod(file, "read", NULL);
  if (!bytes) return -1;
  int rc = -1;
  if (PyObject_CheckBuffer(bytes))
    rc = open_buffer(state, bytes, out);
  else
    PyErr_Format(PyExc_TypeError,
                 "Expected a binary file: read() returned %.200s, not bytes (use mode 'rb').",
                 ecpy_type_name(bytes));
  Py_DECREF(bytes);
  return rc;
}

/* Returns the kind of an object by its type and its bases; NULL: none is known. */
static const char *kind_of(PyObject *object) {
  PyObject *types = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__mro__");
  const Py_ssize_t count = types && PyTuple_Check(types) ? PyTuple_Size(types) : 0;
  const char *kind = NULL;
  for (Py_ssize_t i = 0; !kind && i < count; i++) {
    PyObject *name = PyObject_GetAttrString(PyTuple_GetItem(types, i), "__name__");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text) kind = ec_kind_of_object(text);
    Py_XDECREF(name);
  }
  Py_XDECREF(types);
  PyErr_Clear();
  return kind;
}

int ecpy_source_open(ecpy_state *state, PyObject *data, ec_mlock mlock, ec_source *out) {
  if (PyUnicode_Check(data) || PyObject_HasAttrString(data, "__fspath__"))
    return open_path(state, data, mlock, out);
  if (PyObject_CheckBuffer(data)) return open_buffer(state, data, out);
  if (PyObject_HasAttrString(data, "read")) return open_read(state, data, out);
  const char *kind = kind_of(data);
  PyErr_Format(PyExc_TypeError,
               "Expected data to be bytes, bytearray, another buffer, a path to a file, or a "
               "file-like object, but got %.200s%s%s.",
               ecpy_type_name(data), kind ? ": this is " : "", kind ? kind : "");
  return -1;
}
