/* Dtypes: a table by NumPy's type number. bfloat16 is found through its scalar type. */
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

/* Imports ml_dtypes once. A missing package is not an error. */
static int look_up_bfloat16(ecpy_state *state) {
  if (state->bfloat16_looked_up) return 0;
  PyObject *module = PyImport_ImportModule("ml_dtypes");
  PyObject *type = module ? PyObject_GetAttrString(module, "bfloat16") : NULL;
  Py_XDECREF(module);
  if (!type && !PyErr_ExceptionMatches(PyExc_ImportError)) return -1;
  if (!type) PyErr_Clear();
  PyArray_Descr *descr = NULL;
  if (type && PyArray_DescrConverter(type, &descr) != NPY_SUCCEED) {
    Py_DECREF(type);
    return -1;
  }
  if (!descr) descr = PyArray_DescrFromType(NPY_UINT16);
  Py_XSETREF(state->bfloat16, type);
  Py_XSETREF(state->descrs[EC_BFLOAT16], (PyObject *)descr);
  state->bfloat16_looked_up = 1;
  return 0;
}

PyArray_Descr *ecpy_descr(ecpy_state *state, ec_dtype dtype) {
  if (dtype == EC_BFLOAT16 && look_up_bfloat16(state)) return NULL;
  PyObject *descr = (unsigned)dtype < EC_DTYPE_COUNT ? state->descrs[dtype] : NULL;
  if (!descr) PyErr_Format(PyExc_TypeError, "no NumPy dtype for %s", ec_dtype_name(dtype));
  return (PyArray_Descr *)descr;
}

/* True for ml_dtypes.bfloat16. Registered dtypes have dynamic type numbers, so their scalar type
 * identifies them. */
static bool is_bfloat16(ecpy_state *state, PyArray_Descr *descr) {
  if (!state->bfloat16_looked_up && look_up_bfloat16(state)) PyErr_Clear();
  return state->bfloat16 && (PyObject *)descr->typeobj == state->bfloat16;
}

bool ecpy_dtype_of(ecpy_state *state, PyArray_Descr *descr, ec_dtype expected, ec_dtype *dtype) {
  int number = descr->type_num;
  if (number >= NPY_USERDEF) {
    *dtype = EC_BFLOAT16;
    return is_bfloat16(state, descr);
  }
  if (number < 0 || number >= TYPE_NUMBERS || !dtype_by_number[number]) return false;
  *dtype = (ec_dtype)(dtype_by_number[number] - 1);
  if (*dtype == EC_UINT16 && expected == EC_BFLOAT16 && state->bfloat16_looked_up)
    *dtype = state->bfloat16 ? EC_UINT16 : EC_BFLOAT16;
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
