/* KVCache: keys and values that methods loaded with it share. */
#include "python/state.h"

#include "python/kv_cache_type.h"

#include "core/alloc.h"
#include "kernels/llm/kv_cache.h"
#include "python/arguments.h"
#include "python/errors.h"
#include "python/objects.h"

typedef struct ecpy_kv_cache {
  PyObject_HEAD
  ec_kv_cache *cache;
} ecpy_kv_cache;

static ec_kv_cache *cache_of(PyObject *self) { return ((ecpy_kv_cache *)self)->cache; }

int ecpy_parse_kv_cache(ecpy_state *state, PyObject *object, struct ec_kv_cache **out) {
  if (object == Py_None) return 0;
  if (Py_TYPE(object) != state->kv_cache_type) {
    PyErr_Format(PyExc_TypeError, "`kv_cache` must be a KVCache or None, not %.200s",
                 ecpy_type_name(object));
    return -1;
  }
  *out = cache_of(object);
  return 0;
}

/* ---- lifecycle ---- */

/* Takes the cache, also on failure. */
static PyObject *wrap(PyTypeObject *type, ec_kv_cache *cache) {
  ecpy_kv_cache *self = ecpy_new_object(type);
  if (self) self->cache = cache;
  else ec_kv_cache_release(cache);
  return (PyObject *)self;
}

static int kv_cache_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

static void kv_cache_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  ec_kv_cache_release(cache_of(self));
  ecpy_free_object(self);
}

/* ---- arguments ---- */

/* Parses a number of at least 1; None leaves it unchanged. */
static int parse_count(const char *name, PyObject *object, int64_t *out) {
  Py_ssize_t value;
  if (object == Py_None) return 0;
  if (ecpy_parse_size(name, object, &value)) return -1;
  if (value < 1) {
    PyErr_Format(PyExc_ValueError, "`%s` must be at least 1, not %zd", name, value);
    return -1;
  }
  *out = value;
  return 0;
}

/* Parses a name ("float16"), or a dtype of NumPy or PyTorch. */
static int parse_dtype(PyObject *object, ec_dtype *out) {
  static const ec_dtype dtypes[] = {EC_FLOAT32, EC_FLOAT16, EC_BFLOAT16};
  PyObject *text = PyType_Check(object) ? PyObject_GetAttrString(object, "__name__")
                                        : PyObject_Str(object);
  const char *name = text ? ecpy_utf8(text) : NULL;
  if (name && strncmp(name, "torch.", 6) == 0) name += 6;
  size_t i = 0;
  while (name && i < 3 && strcmp(name, ec_dtype_name(dtypes[i])) != 0) i++;
  if (name && i < 3) *out = dtypes[i];
  else if (name)
    PyErr_Format(PyExc_ValueError, "`dtype` must be float32, float16 or bfloat16, not %R", object);
  Py_XDECREF(text);
  return PyErr_Occurred() ? -1 : 0;
}

static int parse_window(PyObject *object, int64_t *out) {
  *out = 0;
  return parse_count("window", object, out);
}

/* Parses None, a number, or one for each layer into `windows`. */
static int parse_windows(PyObject *object, int64_t windows[EC_MAX_KV_LAYERS], size_t *count) {
  *count = 1;
  if (object == Py_None || PyIndex_Check(object)) return parse_window(object, windows);
  PyObject *items = PySequence_List(object);
  if (!items) return -1;
  const Py_ssize_t n = PyList_GET_SIZE(items);
  int rc = 0;
  if (n < 1 || n > EC_MAX_KV_LAYERS) {
    PyErr_Format(PyExc_ValueError, "`window` has %zd items, expected one for each layer, 1 to %d",
                 n, EC_MAX_KV_LAYERS);
    rc = -1;
  }
  for (Py_ssize_t i = 0; rc == 0 && i < n; i++)
    rc = parse_window(PyList_GET_ITEM(items, i), &windows[i]);
  Py_DECREF(items);
  *count = (size_t)n;
  return rc;
}

static PyObject *kv_cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"capacity", "n_layers", "n_kv_heads", "head_dim", "dtype", "window",
                          NULL};
  PyObject *capacity, *layers = Py_None, *heads = Py_None, *dim = Py_None, *dtype = NULL;
  PyObject *window = Py_None;
  int64_t windows[EC_MAX_KV_LAYERS];
  ec_kv_config config = {.dtype = EC_FLOAT32, .windows = windows};
  ec_kv_cache *cache;
  ec_error err = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOOO:KVCache", names, &capacity, &layers,
                                   &heads, &dim, &dtype, &window))
    return NULL;
  if (capacity == Py_None)
    return PyErr_Format(PyExc_TypeError, "`capacity` must be an int: the number of positions");
  if (parse_count("capacity", capacity, &config.capacity) ||
      parse_count("n_layers", layers, &config.layers) ||
      parse_count("n_kv_heads", heads, &config.heads) ||
      parse_count("head_dim", dim, &config.dim) || (dtype && parse_dtype(dtype, &config.dtype)) ||
      parse_windows(window, windows, &config.window_count))
    return NULL;
  if (ec_kv_cache_new(&config, &cache, &err) == EC_OK) return wrap(type, cache);
  return ecpy_raise((ecpy_state *)PyType_GetModuleState(type), &err);
}

/* ---- documented methods ---- */

PyDoc_STRVAR(
    kv_cache_doc,
    "KVCache(capacity, *, n_layers=None, n_kv_heads=None, head_dim=None, dtype='float32',\n"
    "        window=None)\n--\n\n"
    "Keys and values of a program whose attention is kvcache::update_and_attend.\n\n"
    "Such a program has no buffers for its cache: the runner holds it. Nothing in the file tells\n"
    "its capacity, dtype or windows. Pass one to `Program.load_method(kv_cache=)` or\n"
    "`TextRunner(kv_cache=)`. Methods loaded with one object share it. It is a part of their\n"
    "state: Method.reset, get_state and set_state include it.\n\n"
    "The position of a call's first token is where its keys and values are stored: 0 to the\n"
    "number of stored positions. Going back forgets what comes after.\n\n"
    "Args:\n"
    "    capacity: The maximum number of positions; a call beyond it is refused.\n"
    "    n_layers, n_kv_heads, head_dim: Sizes that calls must have; None for those of the first\n"
    "        call. Memory is allocated then, in its limit (load_method's max_bytes).\n"
    "    dtype: In which keys and values are stored: \"float32\", \"float16\", \"bfloat16\", or a\n"
    "        dtype of NumPy or PyTorch. Attention is computed in float32.\n"
    "    window: Positions that a query sees, itself included (sliding window, ring); None for\n"
    "        all. A sequence has one for each layer.\n\n"
    "Raises ValueError or InvalidArgumentError for a number out of range, TypeError.");

/* Locks the cache; -1 with an exception. */
static int lock(PyObject *self) {
  ec_error err = {0};
  if (ec_kv_cache_lock(cache_of(self), &err) == EC_OK) return 0;
  ecpy_raise(ecpy_state_of(self), &err);
  return -1;
}

static PyObject *rewind_to(PyObject *self, int64_t length) {
  if (lock(self)) return NULL;
  const int64_t now = ec_kv_cache_length(cache_of(self));
  if (length <= now) ec_kv_cache_rewind(cache_of(self), length);
  ec_kv_cache_unlock(cache_of(self));
  if (length <= now) Py_RETURN_NONE;
  return PyErr_Format(PyExc_ValueError, "`length` is %lld, the cache has %lld positions",
                      (long long)length, (long long)now);
}

PyDoc_STRVAR(reset_doc, "reset($self, /)\n--\n\nForget all positions.");

static PyObject *kv_cache_reset(PyObject *self, PyObject *Py_UNUSED(args)) {
  return rewind_to(self, 0);
}

PyDoc_STRVAR(rewind_doc, "rewind($self, length, /)\n--\n\n"
                         "Forget the positions from `length` on.\n\n"
                         "Raises ValueError for a number below 0 or beyond `self.length`.");

static PyObject *kv_cache_rewind(PyObject *self, PyObject *object) {
  Py_ssize_t length;
  if (ecpy_parse_size("length", object, &length)) return NULL;
  if (length >= 0) return rewind_to(self, length);
  return PyErr_Format(PyExc_ValueError, "`length` must be at least 0, not %zd", length);
}

/* Returns a new cache with the same positions. The caller holds the lock. */
static ec_status copy_cache(const ec_kv_cache *cache, ec_kv_cache **out, ec_error *err) {
  ec_kv_config config = cache->config;
  config.windows = cache->windows;
  config.window_count = (size_t)config.layers;
  const size_t size = ec_kv_cache_state_size(cache);
  uint8_t *bytes = ec_alloc(size);
  if (!bytes) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for %zu bytes", size);
  ec_status status = ec_kv_cache_new(&config, out, err);
  if (status == EC_OK) {
    ec_kv_cache_save(cache, bytes);
    status = ec_kv_cache_restore(*out, bytes, size, err);
    if (status != EC_OK) ec_kv_cache_release(*out);
  }
  ec_free(bytes);
  return status;
}

PyDoc_STRVAR(copy_doc, "copy($self, /)\n--\n\n"
                       "Return a cache with the same settings and positions, and its own memory.");

static PyObject *kv_cache_copy(PyObject *self, PyObject *Py_UNUSED(args)) {
  ec_error err = {0};
  ec_kv_cache *cache;
  if (lock(self)) return NULL;
  const ec_status status = copy_cache(cache_of(self), &cache, &err);
  ec_kv_cache_unlock(cache_of(self));
  return status == EC_OK ? wrap(Py_TYPE(self), cache) : ecpy_raise(ecpy_state_of(self), &err);
}

static PyObject *kv_cache_capacity(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromLongLong(cache_of(self)->config.capacity);
}

static PyObject *kv_cache_dtype(PyObject *self, void *Py_UNUSED(closure)) {
  return ecpy_text(ec_dtype_name(cache_of(self)->config.dtype));
}

static PyObject *kv_cache_length(PyObject *self, void *Py_UNUSED(closure)) {
  if (lock(self)) return NULL;
  const int64_t length = ec_kv_cache_length(cache_of(self));
  ec_kv_cache_unlock(cache_of(self));
  return PyLong_FromLongLong(length);
}

static PyObject *kv_cache_nbytes(PyObject *self, void *Py_UNUSED(closure)) {
  if (lock(self)) return NULL;
  const size_t bytes = ec_kv_cache_bytes(cache_of(self));
  ec_kv_cache_unlock(cache_of(self));
  return PyLong_FromSize_t(bytes);
}

/* Returns None, a number, or a list with one for each layer: the argument of the constructor. */
static PyObject *kv_cache_window(PyObject *self, void *Py_UNUSED(closure)) {
  const ec_kv_cache *cache = cache_of(self);
  int64_t same = 1;
  while (same < cache->config.layers && cache->windows[same] == cache->windows[0]) same++;
  const bool is_one = same == cache->config.layers;
  PyObject *list = PyList_New(0);
  for (int64_t i = 0; list && i < (is_one ? 1 : cache->config.layers); i++) {
    const long long window = cache->windows[i];
    ecpy_append(&list, window ? PyLong_FromLongLong(window) : Py_NewRef(Py_None));
  }
  if (!list || !is_one) return list;
  PyObject *one = Py_NewRef(PyList_GetItem(list, 0));
  Py_DECREF(list);
  return one;
}

static PyObject *kv_cache_repr(PyObject *self) {
  PyObject *length = kv_cache_length(self, NULL), *window = kv_cache_window(self, NULL);
  PyObject *text = NULL;
  if (length && window)
    text = PyUnicode_FromFormat(window == Py_None
                                    ? "<KVCache: %S of %lld positions, %s>"
                                    : "<KVCache: %S of %lld positions, %s, window %S>",
                                length, (long long)cache_of(self)->config.capacity,
                                ec_dtype_name(cache_of(self)->config.dtype), window);
  Py_XDECREF(length);
  Py_XDECREF(window);
  return text;
}

/* ---- tables and spec ---- */

static PyMethodDef methods[] = {
    {"reset", kv_cache_reset, METH_NOARGS, reset_doc},
    {"rewind", kv_cache_rewind, METH_O, rewind_doc},
    {"copy", kv_cache_copy, METH_NOARGS, copy_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"capacity", kv_cache_capacity, NULL, PyDoc_STR("The maximum number of positions."), NULL},
    {"dtype", kv_cache_dtype, NULL, PyDoc_STR("The dtype of stored keys and values, a str."), NULL},
    {"window", kv_cache_window, NULL,
     PyDoc_STR("The positions that a query sees: None for all; a list, one for each layer."), NULL},
    {"length", kv_cache_length, NULL, PyDoc_STR("The number of stored positions."), NULL},
    {"nbytes", kv_cache_nbytes, NULL,
     PyDoc_STR("The memory of all layers that calls have used so far."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)kv_cache_doc},
    {Py_tp_new, kv_cache_new},
    {Py_tp_dealloc, kv_cache_dealloc},
    {Py_tp_traverse, kv_cache_traverse},
    {Py_tp_repr, kv_cache_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, NULL},
};

PyType_Spec ecpy_kv_cache_spec = {
    .name = "executorch_c.KVCache",
    .basicsize = sizeof(ecpy_kv_cache),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
