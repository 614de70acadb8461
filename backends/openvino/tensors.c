/* dtypes of tensors, and tensors that the engine has computed. */
#include "tensors.h"

static const eco_dtype dtypes[] = {
#define EC_OV_DTYPE(dtype, type, size, name, precision) {dtype, type, size, name, precision},
#include "dtypes.def"
#undef EC_OV_DTYPE
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const eco_dtype *eco_dtype_of(int32_t dtype) {
  for (size_t i = 0; i < DTYPES; i++)
    if (dtypes[i].dtype == dtype) return &dtypes[i];
  return NULL;
}

const eco_dtype *eco_dtype_of_type(unsigned type) {
  for (size_t i = 0; i < DTYPES; i++)
    if (dtypes[i].type == type) return &dtypes[i];
  return NULL;
}

const eco_dtype *eco_dtype_of_precision(eco_text precision) {
  for (size_t i = 0; i < DTYPES; i++)
    if (eco_text_is(precision, dtypes[i].precision)) return &dtypes[i];
  return NULL;
}

bool eco_is_row_major(const ec_backend_tensor *tensor) {
  for (size_t i = 0; i < tensor->rank; i++)
    if (tensor->dim_order[i] != i) return false;
  return true;
}

static bool read_result(const eco_library *lib, eco_result *out) {
  return lib->tensor_get_element_type(out->tensor, &out->type) == 0 &&
         lib->tensor_get_byte_size(out->tensor, &out->size) == 0 &&
         (!out->size || lib->tensor_data(out->tensor, &out->data) == 0) &&
         lib->tensor_get_shape(out->tensor, &out->shape) == 0;
}

uint32_t eco_result_open(const ec_backend_call *c, const eco_library *lib,
                         const eco_request *request, size_t i, eco_result *out) {
  *out = (eco_result){0};
  if (lib->infer_request_get_output_tensor_by_index(request, i, &out->tensor) == 0 &&
      read_result(lib, out))
    return EC_BACKEND_OK;
  return eco_library_fail(c, lib, EC_BACKEND_INTERNAL, "an output cannot be read");
}

void eco_result_close(const eco_library *lib, eco_result *result) {
  if (result->shape.dims) lib->shape_free(&result->shape);
  if (result->tensor) lib->tensor_free(result->tensor);
}
