/* Dtypes: a table by NumPy's type number. Those of ml_dtypes are found by their scalar types. */
#include "python/state.h"

#include "python/dtype.h"

#define LONG_DTYPE (sizeof(long) == 8 ? EC_INT64 : EC_INT32)
#define ULONG_DTYPE (sizeof(long) == 8 ? EC_UINT64 : EC_UINT32)

enum { TYPE_NUMBERS = NPY_HALF + 1 };

/* 1 + dtype; 0: none */
static const uint8_t dtype_by_number[TYPE_NUMBERS] = {
    [NPY_BOOL] = EC_BOOL + 1,       [NPY_BYTE] = EC_INT8 + 1,
    [NPY_UBYTE] = EC_UINT8 + 1,     [NPY_SHORT] = EC_INT16 + 1,
    [NPY_USHORT] = EC_UINT16 + 1,   [NPY_INT] = EC_INT32 + 1,
    [NPY_UINT] = EC_UINT32 + 1,     [NPY_LONG] = LONG_DTYPE + 1,
    [NPY_ULONG] = ULONG_DTYPE + 1,  [NPY_LONGLONG] = EC_INT64 + 1,
    [NPY_ULONGLONG] = EC_UINT64 + 1, [NPY_FLOAT] = EC_FLOAT32 + 1,
    [NPY_DOUBLE] = EC_FLOAT64 + 1,  [NPY_CFLOAT] = EC_COMPLEX64 + 1,
    [NPY_CDOUBLE] = EC_COMPLEX128 + 1, [NPY_HALF] = EC_FLOAT16 + 1,
};

static const struct {
  ec_dtype dtype;
  int number;
} numbers[] = {
    {EC_UINT8, NPY_UINT8},         {EC_INT8, NPY_INT8},           {EC_INT16, NPY_INT16},
    {EC_INT32, NPY_INT32},         {EC_INT64, NPY_INT64},         {EC_FLOAT16, NPY_FLOAT16},
    {EC_FLOAT32, NPY_FLOAT32},     {EC_FLOAT64, NPY_FLOAT64},     {EC_COMPLEX64, NPY_COMPLEX64},
    {EC_COMPLEX128, NPY_COMPLEX128}, {EC_BOOL, NPY_BOOL},         {EC_UINT16, NPY_UINT16},
    {EC_UINT32, NPY_UINT32},       {EC_UINT64, NPY_UINT64},
};

int ecpy_dtypes_init(ecpy_state *state) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    PyObject *descr = (PyObject *)PyArray_DescrFromType(numbers[i].number);
    if (!descr) return -1;
    state->descrs[numbers[i].dtype] = descr;
  }
  return 0;
}

/* Dtypes that ml_dtypes has under their own names, and NumPy's of the same width. */
static const struct {
  ec_dtype dtype;
  int bits;
} extensions[] = {
    {EC_BFLOAT16, NPY_UINT16},       {EC_FLOAT8_E5M2, NPY_UINT8},     {EC_FLOAT8_E4M3FN, NPY_UINT8},
    {EC_FLOAT8_E5M2FNUZ, NPY_UINT8}, {EC_FLOAT8_E4M3FNUZ, NPY_UINT8},
};
enum { EXTENSIONS = sizeof extensions / sizeof *extensions };

static int look_up_extension(ecpy_state *state, PyObject *module, size_t i) {
  const ec_dtype dtype = extensions[i].dtype;
  PyObject *type = module ? PyObject_GetAttrString(module, ec_dtype_name(dtype)) : NULL;
  if (module && !type) return -1;
  PyArray_Descr *descr = NULL;
  if (type && PyArray_DescrConverter(type, &descr) != NPY_SUCCEED) {
    Py_DECREF(type);
    return -1;
  }
  if (!descr) descr = PyArray_DescrFromType(extensions[i].bits);
  Py_XSETREF(state->extensions[dtype], type);
  Py_XSETREF(state->descrs[dtype], (PyObject *)descr);
  return 0;
}

/* Imports ml_dtypes once. A missing package is not an error. */
static int look_up_extensions(ecpy_state *state) {
  if (state->extensions_looked_up) return 0;
  PyObject *module = PyImport_ImportModule("ml_dtypes");
  if (!module && !PyErr_ExceptionMatches(PyExc_ImportError)) return -1;
  if (!module) PyErr_Clear();
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < EXTENSIONS; i++) rc = look_up_extension(state, module, i);
  Py_XDECREF(module);
  if (rc == 0) state->extensions_looked_up = 1;
  return rc;
}

bool ecpy_is_extension(ec_dtype dtype) { return dtype == EC_BFLOAT16 || ec_is_float8(dtype); }

PyArray_Descr *ecpy_descr(ecpy_state *state, ec_dtype dtype) {
  if (ecpy_is_extension(dtype) && look_up_extensions(state)) return NULL;
  PyObject *descr = (unsigned)dtype < EC_DTYPE_COUNT ? state->descrs[dtype] : NULL;
  if (!descr) PyErr_Format(PyExc_TypeError, "no NumPy dtype for %s", ec_dtype_name(dtype));
  return (PyArray_Descr *)descr;
}

/* Finds a dtype of ml_dtypes. Registered dtypes have dynamic type numbers, so their scalar type
 * identifies them. */
static bool find_extension(ecpy_state *state, PyArray_Descr *descr, ec_dtype *dtype) {
  if (look_up_extensions(state)) PyErr_Clear();
  for (size_t i = 0; i < EXTENSIONS; i++) {
    *dtype = extensions[i].dtype;
    if (state->extensions[*dtype] == (PyObject *)descr->typeobj) return true;
  }
  return false;
}

bool ecpy_dtype_of(ecpy_state *state, PyArray_Descr *descr, ec_dtype expected, ec_dtype *dtype) {
  int number = descr->type_num;
  if (number >= NPY_USERDEF) return find_extension(state, descr, dtype);
  if (number < 0 || number >= TYPE_NUMBERS || !dtype_by_number[number]) return false;
  *dtype = (ec_dtype)(dtype_by_number[number] - 1);
  if (ecpy_is_extension(expected) && state->extensions_looked_up && !state->extensions[expected] &&
      state->descrs[expected] == state->descrs[*dtype])
    *dtype = expected;
  return true;
}

PyObject *ecpy_scalar_types(void) {
  return Py_BuildValue("{"
#define EC_DTYPE(NAME, id, size, name, reference, category) "s:i"
#include "core/dtype.def"
#undef EC_DTYPE
                       "}",
#define EC_DTYPE(NAME, id, size, name, reference, category) name, id,
#include "core/dtype.def"
#undef EC_DTYPE
                       NULL);
}
