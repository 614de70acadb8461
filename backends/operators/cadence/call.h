/* One call of an operator: its arguments, checked, and elements as floats. */
#ifndef CADENCE_CALL_H
#define CADENCE_CALL_H

#include "executorch_c/arguments.h"

/* Sets of dtypes. */
#define CAD_BYTES (EC_ARG_SET(EC_DTYPE_UINT8) | EC_ARG_SET(EC_DTYPE_INT8))
#define CAD_SHORTS (CAD_BYTES | EC_ARG_SET(EC_DTYPE_INT16) | EC_ARG_SET(EC_DTYPE_UINT16))
#define CAD_QUANTIZED (CAD_SHORTS | EC_ARG_SET(EC_DTYPE_INT32))
#define CAD_FLOAT EC_ARG_SET(EC_DTYPE_FLOAT32)
#define CAD_ANY (~(EC_ARG_SET(EC_DTYPE_COMPLEX64) | EC_ARG_SET(EC_DTYPE_COMPLEX128)))

enum {
  CAD_RANK = 16,           /* maximum dimensions of a tensor (backend.h) */
  CAD_BLOCK = 256,         /* elements that are computed at once */
  CAD_MAX_EXTENT = 1 << 20 /* of a kernel size, stride, padding or dilation */
};

typedef ec_backend_tensor cad_tensor;

typedef struct cad_call {
  const ec_host *host;
  ec_host_call *call;
  ec_backend_arg *args;
  size_t count;
  uint32_t dtypes; /* of the first tensor, by the operator's row */
} cad_call;

bool cad_is_tensor(const cad_call *c, size_t i);

/* Sets tensor argument `i`, which has one of `dtypes` and `count` elements in order. */
uint32_t cad_vector(const cad_call *c, size_t i, const char *name, uint32_t dtypes, int64_t count,
                    const cad_tensor **out);

/* Reads argument `i`: an int, or a tensor with one. */
uint32_t cad_int(const cad_call *c, size_t i, const char *name, int32_t *out);
/* Reads argument `i`: a float, or a tensor with one; finite and above 0. */
uint32_t cad_scale(const cad_call *c, size_t i, const char *name, double *out);
/* Reads an int[] argument with an item for each of `count` dimensions, in [least, CAD_MAX_EXTENT].
 * One item stands for all, and the last one for a single dimension. */
uint32_t cad_ints(const cad_call *c, size_t i, const char *name, int64_t least, size_t count,
                  int64_t *out);
/* Sets a dimension, counted from the end if negative. */
uint32_t cad_dim(const cad_call *c, size_t i, size_t rank, size_t *out);

/* Reads the elements at, at + step, ... as floats, less `zero`. */
void cad_load(const cad_tensor *t, int64_t at, int64_t step, int64_t n, float zero, float *out);
/* Writes floats, which are in the range of the dtype. */
void cad_store(const cad_tensor *t, int64_t at, int64_t step, int64_t n, const float *values);

/* Returns tensor `t` as floats less `zero`, in memory of the call. */
uint32_t cad_floats(const cad_call *c, const cad_tensor *t, float zero, float **out);

#endif
