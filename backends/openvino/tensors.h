/* dtypes of tensors, and tensors that the engine has computed. */
#ifndef ECO_TENSORS_H
#define ECO_TENSORS_H

#include "library.h"
#include "xml.h"

enum { ECO_RANK = 16 }; /* at most */

typedef struct eco_dtype {
  int32_t dtype;
  unsigned type; /* the engine's number */
  size_t size;
  const char *name, *precision; /* "float32", "FP32" */
} eco_dtype;

/* Each returns NULL for a dtype that the runtime or the engine lacks. */
const eco_dtype *eco_dtype_of(int32_t dtype);
const eco_dtype *eco_dtype_of_type(unsigned type);
const eco_dtype *eco_dtype_of_precision(eco_text precision);

/* True if the elements of a tensor are in row-major order. */
bool eco_is_row_major(const ec_backend_tensor *tensor);

/* An output of a request; row-major. */
typedef struct eco_result {
  eco_tensor *tensor;
  unsigned type;
  eco_shape shape;
  size_t size;
  void *data;
} eco_result;

/* Reads output `i` of a request. It must be closed, after a failure too. */
uint32_t eco_result_open(const ec_backend_call *c, const eco_library *lib,
                         const eco_request *request, size_t i, eco_result *out);
void eco_result_close(const eco_library *lib, eco_result *result);

#endif
