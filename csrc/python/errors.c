/* Exceptions: Error, a RuntimeError with a code, and a subclass for each row of status.def. */
#include "python/state.h"

#include "python/errors.h"

#include <stdarg.h>

PyDoc_STRVAR(error_doc,
             "An error of the runtime: the base of all its exceptions.\n\n"
             "The message states the location, what was found and what was expected. It ends with\n"
             "the error code of the ExecuTorch documentation. `code` is that code as an int,\n"
             "`status` its name (\"INVALID_ARGUMENT\"); the class has both, too.");

/* True for a character that str.isprintable accepts, or without memory. */
static bool is_printable(Py_UCS4 c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7f;
  PyObject *text = PyUnicode_FromOrdinal((int)c);
  PyObject *answer = text ? PyObject_CallMethod(text, "isprintable", NULL) : NULL;
  const bool is = answer != Py_False;
  if (!answer) PyErr_Clear();
  Py_XDECREF(answer);
  Py_XDECREF(text);
  return is;
}

/* Writes a character: printable ones as they are, others, such as line breaks, as Python's escapes.
 * Returns the end. */
static Py_UCS4 *write_visible(Py_UCS4 c, Py_UCS4 *out) {
  char text[16];
  if (is_printable(c)) {
    *out = c;
    return out + 1;
  }
  if (c == '\n') {
    out[0] = '\\';
    out[1] = 'n';
    return out + 2;
  }
  const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  const int count = PyOS_snprintf(text, sizeof text, format, (unsigned)c);
  for (int i = 0; i < count; i++) *out++ = (Py_UCS4)text[i];
  return out;
}

/* Returns a sentence on one line, without control characters: names in a file may hold a terminal's
 * codes, or lines that look like a command's. Takes `sentence`. */
static PyObject *make_visible(PyObject *sentence) {
  enum { LONGEST = 10 }; /* "\U0010ffff" */
  if (!sentence) return NULL;
  const Py_ssize_t count = PyUnicode_GetLength(sentence);
  Py_UCS4 *text = PyMem_New(Py_UCS4, (size_t)count * LONGEST + 1), *end = text;
  for (Py_ssize_t i = 0; text && i < count; i++)
    end = write_visible(PyUnicode_ReadChar(sentence, i), end);
  PyObject *made = text ? PyUnicode_DecodeUTF32((const char *)text, (end - text) * 4, NULL, NULL)
                        : PyErr_NoMemory();
  PyMem_Free(text);
  Py_DECREF(sentence);
  return made;
}

/* Returns the message. KeyError would return its repr. */
static PyObject *error_str(PyObject *self) {
  PyObject *args = PyObject_GetAttrString(self, "args");
  if (!args) return NULL;
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject *text = count == 0 ? PyUnicode_FromString("")
                              : PyObject_Str(count == 1 ? PyTuple_GET_ITEM(args, 0) : args);
  Py_DECREF(args);
  return make_visible(text);
}

static PyType_Slot error_slots[] = {
    {Py_tp_doc, (void *)error_doc},
    {Py_tp_str, error_str},
    {0, NULL},
};

static PyType_Spec error_spec = {
    .name = "executorch_c.Error",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = error_slots,
};

/* Returns the namespace of a status class. */
static PyObject *status_dict(int code, const char *status, const char *sentence) {
  return Py_BuildValue("{s:s, s:i, s:s, s:N}", "__module__", "executorch_c", "code", code, "status",
                       status, "__doc__",
                       PyUnicode_FromFormat("The runtime's error 0x%02x: %s.", code, sentence));
}

static PyObject *make_status(PyObject *error, PyObject *second, const char *name, int code,
                             const char *status, const char *sentence) {
  PyObject *dict = status_dict(code, status, sentence);
  if (!dict) return NULL;
  PyObject *made =
      second == PyExc_RuntimeError
          ? PyObject_CallFunction((PyObject *)&PyType_Type, "s(O)N", name, error, dict)
          : PyObject_CallFunction((PyObject *)&PyType_Type, "s(OO)N", name, error, second, dict);
  return made;
}

static int add_error(PyObject *module, ecpy_state *state) {
  PyObject *bases = PyTuple_Pack(1, PyExc_RuntimeError);
  if (!bases) return -1;
  state->error_type = PyType_FromModuleAndSpec(module, &error_spec, bases);
  Py_DECREF(bases);
  if (!state->error_type) return -1;
  PyObject *code = PyLong_FromLong(EC_INTERNAL);
  PyObject *status = PyUnicode_FromString("INTERNAL");
  int rc = code && status ? 0 : -1;
  if (rc == 0) rc = PyObject_SetAttrString(state->error_type, "code", code);
  if (rc == 0) rc = PyObject_SetAttrString(state->error_type, "status", status);
  Py_XDECREF(code);
  Py_XDECREF(status);
  return rc ? rc : PyModule_AddObjectRef(module, "Error", state->error_type);
}

typedef struct status_row {
  ec_status code;
  const char *status, *sentence, *class_name;
  PyObject *second;
} status_row;

int ecpy_errors_init(PyObject *module, ecpy_state *state) {
  const status_row rows[] = {
#define EC_STATUS(name, code, sentence, pyclass, pybase)                                           \
  {EC_##name, #name, sentence, #pyclass, PyExc_##pybase},
#include "core/status.def"
#undef EC_STATUS
  };
  if (add_error(module, state)) return -1;
  for (size_t i = 0; i < ECPY_STATUS_COUNT; i++) {
    if (rows[i].code == EC_OK) continue; /* success is never raised */
    state->status_types[i] = make_status(state->error_type, rows[i].second, rows[i].class_name,
                                         (int)rows[i].code, rows[i].status, rows[i].sentence);
    if (!state->status_types[i]) return -1;
    if (PyModule_AddObjectRef(module, rows[i].class_name, state->status_types[i])) return -1;
  }
  return 0;
}

/* Returns the class of a status, or Error for an unknown number from a backend. */
static PyObject *class_of(ecpy_state *state, ec_status status) {
  PyObject *found = NULL;
  switch (status) {
#define EC_STATUS(name, code, sentence, pyclass, pybase)                                           \
  case EC_##name: found = state->status_types[ECPY_STATUS_##name]; break;
#include "core/status.def"
#undef EC_STATUS
  }
  return found ? found : state->error_type;
}

/* Takes `sentence`. */
static PyObject *raise_sentence(ecpy_state *state, ec_status status, PyObject *sentence) {
  sentence = make_visible(sentence);
  if (!sentence) return NULL;
  PyObject *type = class_of(state, status);
  PyObject *text = PyUnicode_FromFormat("%U [error 0x%02x: %s]", sentence, (int)status,
                                        ec_status_sentence(status));
  Py_DECREF(sentence);
  PyObject *error = text ? PyObject_CallOneArg(type, text) : NULL;
  Py_XDECREF(text);
  if (!error) return NULL;
  if (type == state->error_type) {
    PyObject *code = PyLong_FromLong((long)status);
    if (code) PyObject_SetAttrString(error, "code", code);
    Py_XDECREF(code);
  }
  PyErr_SetObject(type, error);
  Py_DECREF(error);
  return NULL;
}

static const char *const hints[EC_HINTS] = {
    [EC_HINT_CONVERT] = "convert it with .astype",
    [EC_HINT_DATA_FILES] = "load the program with data_path=",
    [EC_HINT_IS_DATA] = "pass it as data_path= with the program",
    [EC_HINT_MAX_STEPS] = "max_steps=",
    [EC_HINT_MAX_BYTES] = "max_bytes=",
    [EC_HINT_KV_CACHE] = "load_method(kv_cache=executorch_c.KVCache(capacity)); commands have "
                         "--kv-cache capacity=N",
};

/* Appends the text of a hint in parentheses, or inside those at the end of the message. Takes
 * `sentence`. */
static PyObject *add_hint(PyObject *sentence, ec_hint hint) {
  if (!sentence || !hints[hint]) return sentence;
  const Py_ssize_t length = PyUnicode_GetLength(sentence);
  const bool open = length && PyUnicode_ReadChar(sentence, length - 1) == ')';
  PyObject *start = PyUnicode_Substring(sentence, 0, length - open);
  Py_SETREF(sentence, start ? PyUnicode_FromFormat(open ? "%U: %s)" : "%U (%s)", start, hints[hint])
                            : NULL);
  Py_XDECREF(start);
  return sentence;
}

PyObject *ecpy_raise(ecpy_state *state, const ec_error *err) {
  Py_ssize_t size = (Py_ssize_t)strlen(err->message);
  PyObject *sentence = PyUnicode_DecodeUTF8(err->message, size, "replace");
  return raise_sentence(state, err->status, add_hint(sentence, err->hint));
}

PyObject *ecpy_fetch_exception(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!type) return NULL;
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_DECREF(type);
  Py_XDECREF(trace);
  return value;
}

void ecpy_raise_from(ecpy_state *state, const ec_error *err, PyObject *cause) {
  if (cause && !PyErr_GivenExceptionMatches(cause, PyExc_Exception)) {
    PyErr_SetObject((PyObject *)Py_TYPE(cause), cause);
    Py_DECREF(cause);
    return;
  }
  ecpy_raise(state, err);
  PyObject *error = cause ? ecpy_fetch_exception() : NULL;
  if (!error) {
    Py_XDECREF(cause);
    return;
  }
  PyException_SetContext(error, Py_NewRef(cause));
  PyException_SetCause(error, cause);
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_DECREF(error);
}

PyObject *ecpy_raise_format(ecpy_state *state, ec_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *sentence = PyUnicode_FromFormatV(format, args);
  va_end(args);
  return raise_sentence(state, status, sentence);
}

PyObject *ecpy_no_memory(const char *what) {
  return PyErr_Format(PyExc_MemoryError, "no memory for %s", what);
}
