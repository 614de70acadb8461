/* Scalar types: ids, sizes, names and sets, all from dtype.def. */
#ifndef EC_CORE_DTYPE_H
#define EC_CORE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ec_dtype {
#define EC_DTYPE(NAME, id, bytes, name, torch_name, category) EC_##NAME = (id),
#include "core/dtype.def"
#undef EC_DTYPE
} ec_dtype;

enum { EC_DTYPE_COUNT = 32 }; /* size of a table indexed by dtype; unused slots are zero */

/* The dtypes that a selective build has, all by default (`executorch-c selective`). */
#ifndef EC_KEPT_DTYPES
#define EC_KEPT_DTYPES 0xffffffffu
#endif

/* Stands in tables in place of a loop that a selective build lacks: notes the call, returns 0. */
uintptr_t ec_dropped_loop(void);

/* Returns whether such a loop was called since the last time. */
bool ec_dropped_loop_ran(void);

/* A set of dtypes is a mask of their ids. */
typedef uint32_t ec_dtype_set;
#define EC_BIT(dtype) (1u << (unsigned)(dtype))
enum {
  EC_SET_BOOL = 1u << EC_BOOL,
  EC_SET_INTEGRAL = 1u << EC_UINT8 | 1u << EC_INT8 | 1u << EC_INT16 | 1u << EC_INT32 |
                    1u << EC_INT64 | 1u << EC_UINT16 | 1u << EC_UINT32 | 1u << EC_UINT64,
  EC_SET_HALF = 1u << EC_FLOAT16 | 1u << EC_BFLOAT16,
  EC_SET_FLOATING = 1u << EC_FLOAT32 | 1u << EC_FLOAT64 | EC_SET_HALF,
  EC_SET_COMPLEX = 1u << EC_COMPLEX64 | 1u << EC_COMPLEX128,
  EC_SET_INTB = EC_SET_INTEGRAL | EC_SET_BOOL,
  EC_SET_REAL = EC_SET_INTEGRAL | EC_SET_FLOATING,
  EC_SET_REALB = EC_SET_REAL | EC_SET_BOOL,
  EC_SET_FLOATC = EC_SET_FLOATING | EC_SET_COMPLEX,
  EC_SET_FLOATCB = EC_SET_FLOATC | EC_SET_BOOL,
  EC_SET_REALC = EC_SET_REAL | EC_SET_COMPLEX,
  EC_SET_ALL = EC_SET_REALB | EC_SET_COMPLEX,
  /* Dtypes of weights, without arithmetic: only rows with STORED or FLOAT8 take them. */
  EC_SET_FLOAT8 = 1u << EC_FLOAT8_E5M2 | 1u << EC_FLOAT8_E4M3FN | 1u << EC_FLOAT8_E5M2FNUZ |
                  1u << EC_FLOAT8_E4M3FNUZ,
  EC_SET_STORED = EC_SET_ALL | EC_SET_FLOAT8,
  /* Dtypes of eager PyTorch's heavier operators: uint16, uint32 and uint64 are missing. */
  EC_SET_CLASSIC_INT = EC_SET_INTEGRAL & ~(1u << EC_UINT16 | 1u << EC_UINT32 | 1u << EC_UINT64),
  EC_SET_CLASSIC = EC_SET_CLASSIC_INT | EC_SET_FLOATING,
  EC_SET_CLASSICC = EC_SET_CLASSIC | EC_SET_COMPLEX,
  EC_SET_FLOATING_INT64 = EC_SET_FLOATING | 1u << EC_INT64,
  EC_SET_WIDE_INT64 = 1u << EC_FLOAT32 | 1u << EC_FLOAT64 | 1u << EC_INT64,
  EC_SET_FLOATING_UINT8 = EC_SET_FLOATING | 1u << EC_UINT8,
  EC_SET_SINGLE = EC_SET_HALF | 1u << EC_FLOAT32,
  EC_SET_FLOAT32 = 1u << EC_FLOAT32,
  EC_SET_SINGLE_INT8 = EC_SET_SINGLE | 1u << EC_INT8,
  EC_SET_QUANTIZED = 1u << EC_UINT8 | 1u << EC_INT8 | 1u << EC_INT16 | 1u << EC_UINT16 |
                     1u << EC_INT32,
  EC_SET_UINT8 = 1u << EC_UINT8,
  EC_SET_BYTES = 1u << EC_UINT8 | 1u << EC_INT8,
  EC_SET_WIDEC = 1u << EC_FLOAT32 | 1u << EC_FLOAT64 | EC_SET_COMPLEX, /* decompositions */
  EC_SET_WIDE = 1u << EC_FLOAT32 | 1u << EC_FLOAT64,
  EC_SET_WIDE_UINT8 = 1u << EC_FLOAT32 | 1u << EC_FLOAT64 | 1u << EC_UINT8,
  EC_SET_NONE = 0 /* for operators without tensors */
};

/* Returns the bytes of one element; 0 for an id without a row in dtype.def. */
size_t ec_dtype_size(ec_dtype dtype);
/* Returns NumPy's name ("float32"), or a distinct name ("qint8", "dtype 99") for other ids. */
const char *ec_dtype_name(ec_dtype dtype);
/* Returns the reference's name ("Float"). */
const char *ec_dtype_torch_name(ec_dtype dtype);
/* True if `id` (from a file) has a row in dtype.def, and this build has the dtype. */
bool ec_dtype_valid(int64_t id);

static inline bool ec_dtype_in(ec_dtype dtype, ec_dtype_set set) {
  return (unsigned)dtype < 32 && (set >> (unsigned)dtype & 1u);
}
static inline bool ec_is_floating(ec_dtype d) { return ec_dtype_in(d, EC_SET_FLOATING); }
static inline bool ec_is_float8(ec_dtype d) { return ec_dtype_in(d, EC_SET_FLOAT8); }
static inline bool ec_is_complex(ec_dtype d) { return ec_dtype_in(d, EC_SET_COMPLEX); }
static inline bool ec_is_integral(ec_dtype d) { return ec_dtype_in(d, EC_SET_INTEGRAL); }

/* Writes "float32, float16" for messages into the `size` bytes of `buffer`. Returns `buffer`. */
const char *ec_dtype_set_names(ec_dtype_set set, char *buffer, size_t size);

#endif
