/* DLPack capsules. They are read here because numpy.from_dlpack refuses bfloat16. The structs are
 * those of both versions of the DLPack specification: 0.x, and 1.x with version and flags. */
#include "python/state.h"

#include "python/dlpack.h"

#include "core/limits.h"
#include "python/arrays.h"
#include "python/dtype.h"

enum { DL_CPU = 1, DL_CUDA_HOST = 3 }; /* both are readable by the CPU */
enum {
  DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6,
  DL_FLOAT8_E4M3FN = 10, DL_FLOAT8_E4M3FNUZ = 11, DL_FLOAT8_E5M2 = 12, DL_FLOAT8_E5M2FNUZ = 13
};

typedef struct dl_tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_managed_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct dl_managed_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed_versioned;

static bool find_dtype(const dl_tensor *tensor, ec_dtype *dtype) {
  static const struct {
    uint8_t code, bits;
    ec_dtype dtype;
  } rows[] = {
      {DL_INT, 8, EC_INT8},       {DL_INT, 16, EC_INT16},        {DL_INT, 32, EC_INT32},
      {DL_INT, 64, EC_INT64},     {DL_UINT, 8, EC_UINT8},        {DL_UINT, 16, EC_UINT16},
      {DL_UINT, 32, EC_UINT32},   {DL_UINT, 64, EC_UINT64},      {DL_FLOAT, 16, EC_FLOAT16},
      {DL_FLOAT, 32, EC_FLOAT32}, {DL_FLOAT, 64, EC_FLOAT64},    {DL_BFLOAT, 16, EC_BFLOAT16},
      {DL_FLOAT8_E4M3FN, 8, EC_FLOAT8_E4M3FN}, {DL_FLOAT8_E4M3FNUZ, 8, EC_FLOAT8_E4M3FNUZ},
      {DL_FLOAT8_E5M2, 8, EC_FLOAT8_E5M2}, {DL_FLOAT8_E5M2FNUZ, 8, EC_FLOAT8_E5M2FNUZ},
      {DL_BOOL, 8, EC_BOOL},      {DL_COMPLEX, 64, EC_COMPLEX64}, {DL_COMPLEX, 128, EC_COMPLEX128},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].code != tensor->dtype.code || rows[i].bits != tensor->dtype.bits) continue;
    *dtype = rows[i].dtype;
    return tensor->dtype.lanes == 1;
  }
  return false;
}

/* Reads sizes, and strides in bytes. Returns false on overflow. */
static bool read_layout(const dl_tensor *tensor, size_t itemsize, npy_intp *sizes,
                        npy_intp *strides) {
  int64_t elements[EC_MAX_RANK], dense = (int64_t)itemsize;
  for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
    const int64_t size = tensor->shape[i];
    elements[i] = tensor->strides ? tensor->strides[i] : dense / (int64_t)itemsize;
    if (size < 0 || __builtin_mul_overflow(dense, size > 1 ? size : 1, &dense)) return false;
    sizes[i] = (npy_intp)size;
  }
  return ecpy_byte_strides((size_t)tensor->ndim, elements, itemsize, strides);
}

/* Returns an array on a tensor's memory. The caller sets a base that keeps it alive. */
static PyObject *make_array(ecpy_state *state, const dl_tensor *tensor) {
  ec_dtype dtype;
  if (tensor->device.type != DL_CPU && tensor->device.type != DL_CUDA_HOST)
    return PyErr_Format(PyExc_BufferError, "the array is on device type %d, not in CPU memory",
                        (int)tensor->device.type);
  if (!find_dtype(tensor, &dtype))
    return PyErr_Format(PyExc_TypeError, "DLPack dtype of code %d, %d bits, %d lanes",
                        tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  if (tensor->ndim < 0 || tensor->ndim > EC_MAX_RANK ||
      !read_layout(tensor, ec_dtype_size(dtype), sizes, strides))
    return PyErr_Format(PyExc_ValueError, "DLPack array of %d dimensions cannot be used",
                        (int)tensor->ndim);
  char *data = tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
  if (!data && PyArray_MultiplyList(sizes, tensor->ndim) != 0)
    return PyErr_Format(PyExc_ValueError, "DLPack array without data");
  PyArray_Descr *descr = ecpy_descr(state, dtype);
  if (!descr) return NULL;
  return (PyObject *)ecpy_array_view(descr, (size_t)tensor->ndim, sizes, data ? strides : NULL,
                                     data,
                                     false, NULL);
}

/* ---- ownership ----------------------------------------------------------------------------- */

static const char owner_name[] = "executorch_c._dlpack", owner_name_versioned[] =
    "executorch_c._dlpack_versioned";

/* Calls the deleter, which may be any code, with a pending exception saved. */
static void free_owner(PyObject *owner) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyCapsule_IsValid(owner, owner_name)) {
    dl_managed *managed = PyCapsule_GetPointer(owner, owner_name);
    if (managed->deleter) managed->deleter(managed);
  } else {
    dl_managed_versioned *managed = PyCapsule_GetPointer(owner, owner_name_versioned);
    if (managed->deleter) managed->deleter(managed);
  }
  PyErr_Restore(type, value, trace);
}

/* Consumes a capsule as the protocol requires: renames it, and sets an owner as the array's base,
 * which calls the deleter. Takes the array. */
static PyObject *consume_capsule(PyObject *array, PyObject *capsule, const char *name,
                                 const char *used,
                                 const char *as) {
  PyObject *owner = array ? PyCapsule_New(PyCapsule_GetPointer(capsule, name), as, NULL) : NULL;
  if (owner && PyCapsule_SetName(capsule, used) == 0) {
    PyCapsule_SetDestructor(owner, free_owner);
    if (PyArray_SetBaseObject((PyArrayObject *)array, owner) == 0) return array;
  } else {
    Py_XDECREF(owner);
  }
  Py_XDECREF(array);
  return NULL;
}

static PyObject *wrap_capsule(ecpy_state *state, PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != 1)
      return PyErr_Format(PyExc_BufferError, "DLPack version %u is not supported (expected 1)",
                          (unsigned)managed->version.major);
    return consume_capsule(make_array(state, &managed->tensor), capsule, "dltensor_versioned",
                           "used_dltensor_versioned", owner_name_versioned);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    return consume_capsule(make_array(state, &managed->tensor), capsule, "dltensor",
                           "used_dltensor",
                           owner_name);
  }
  if (PyCapsule_CheckExact(capsule))
    return PyErr_Format(PyExc_TypeError, "__dlpack__ returned a capsule \"%.100s\", not "
                        "\"dltensor\" (a capsule can be consumed only once)",
                        PyCapsule_GetName(capsule) ? PyCapsule_GetName(capsule) : "");
  return PyErr_Format(PyExc_TypeError, "__dlpack__ returned %.200s, not a capsule \"dltensor\"",
                      ecpy_type_name(capsule));
}

/* Calls __dlpack__(max_version=(1, 0)). Libraries older than 1.0 do not accept the argument. */
static PyObject *get_capsule(ecpy_state *state, PyObject *object) {
  PyObject *method = PyObject_GetAttr(object, state->name_dlpack);
  PyObject *kwargs = method ? Py_BuildValue("{s:(ii)}", "max_version", 1, 0) : NULL;
  PyObject *none = kwargs ? PyTuple_New(0) : NULL;
  PyObject *capsule = none ? PyObject_Call(method, none, kwargs) : NULL;
  if (!capsule && none && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method);
  }
  Py_XDECREF(none);
  Py_XDECREF(kwargs);
  Py_XDECREF(method);
  return capsule;
}

/* Checks the device first, so that an array on a GPU is refused without a synchronisation. */
static int check_device(ecpy_state *state, PyObject *object) {
  if (!PyObject_HasAttr(object, state->name_dlpack_device)) return 0;
  PyObject *device = PyObject_CallMethodNoArgs(object, state->name_dlpack_device);
  if (!device) return -1;
  PyObject *type = PySequence_GetItem(device, 0);
  Py_DECREF(device);
  long number = type ? PyLong_AsLong(type) : -1; /* an IntEnum or int */
  Py_XDECREF(type);
  if (number == -1 && PyErr_Occurred()) return -1;
  if (number == DL_CPU || number == DL_CUDA_HOST) return 0;
  PyErr_Format(PyExc_BufferError, "the array is on device type %ld, not in CPU memory", number);
  return -1;
}

PyObject *ecpy_from_dlpack(ecpy_state *state, PyObject *object) {
  if (check_device(state, object)) return NULL;
  PyObject *capsule = get_capsule(state, object);
  PyObject *array = capsule ? wrap_capsule(state, capsule) : NULL;
  Py_XDECREF(capsule);
  return array;
}
