/* Inputs of a request: lent to the engine in row-major order. */
#include "request.h"

#include <stdio.h>
#include <string.h>

#include "tensors.h"

/* Returns "float32[2, 3]" of a shape, in `text`. */
static const char *shape_text(char *text, size_t room, const char *dtype, size_t rank,
                              const int64_t *sizes) {
  int used = snprintf(text, room, "%s[", dtype);
  for (size_t i = 0; i < rank && used > 0 && (size_t)used < room; i++)
    used += snprintf(text + used, room - (size_t)used, "%s%lld", i ? ", " : "",
                     (long long)sizes[i]);
  if (used > 0 && (size_t)used < room) snprintf(text + used, room - (size_t)used, "]");
  return text;
}

/* Copies elements in row-major order. */
static void copy_row_major(const ec_backend_tensor *t, size_t size, char *out) {
  int64_t at[ECO_RANK] = {0}, offset = 0;
  for (size_t left = t->nbytes / size; left > 0; left--) {
    memcpy(out, (const char *)t->data + offset * (int64_t)size, size);
    out += size;
    for (size_t d = t->rank; d-- > 0;) {
      offset += t->strides[d];
      if (++at[d] < t->sizes[d]) break;
      offset -= t->strides[d] * t->sizes[d];
      at[d] = 0;
    }
  }
}

/* Returns the bytes of an input in row-major order; NULL without memory. */
static void *input_bytes(const ec_backend_call *c, const ec_backend_tensor *t, size_t size) {
  if (t->data && eco_is_row_major(t)) return t->data;
  char *copy = c->host->scratch(c->call, t->nbytes ? t->nbytes : 1);
  if (copy && t->nbytes) copy_row_major(t, size, copy);
  return copy;
}

static uint32_t set_input(const ec_backend_call *c, const eco_delegate *d, eco_request *request,
                          size_t i, const eco_dtype *row, eco_shape shape, void *data) {
  char what[64 + 24 * ECO_RANK], shown[24 * ECO_RANK];
  eco_tensor *tensor = NULL;
  int status = d->lib->tensor_create_from_host_ptr(row->type, shape, data, &tensor);
  if (status == 0)
    status = d->lib->infer_request_set_input_tensor_by_index(request, i, tensor);
  if (tensor) d->lib->tensor_free(tensor); /* the request holds its own reference */
  if (status == 0) return EC_BACKEND_OK;
  snprintf(what, sizeof what, "input %zu, %s", i,
           shape_text(shown, sizeof shown, row->name, (size_t)shape.rank, shape.dims));
  return eco_library_fail(c, d->lib, EC_BACKEND_INVALID_ARGUMENT, what);
}

static uint32_t set_number(const ec_backend_call *c, const eco_delegate *d, eco_request *request,
                           size_t i, ec_backend_arg *arg) {
  int64_t one = 1;
  if (arg->kind != EC_BACKEND_INT)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_ARGUMENT,
                           "input %zu has kind %u, expected a tensor or an int", i, arg->kind);
  return set_input(c, d, request, i, eco_dtype_of(EC_DTYPE_INT64), (eco_shape){1, &one},
                   &arg->as.i);
}

static uint32_t give_input(const ec_backend_call *c, const eco_delegate *d, eco_request *request,
                           size_t i, ec_backend_arg *arg) {
  if (arg->kind != EC_BACKEND_TENSOR) return set_number(c, d, request, i, arg);
  const ec_backend_tensor *t = &arg->as.tensor;
  const eco_dtype *row = eco_dtype_of(t->dtype);
  if (!row)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "input %zu has dtype number %d, which OpenVINO "
                           "does not have",
                           i, (int)t->dtype);
  void *data = input_bytes(c, t, row->size);
  if (!data) return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for input %zu", i);
  int64_t dims[ECO_RANK];
  for (size_t k = 0; k < t->rank; k++) dims[k] = t->sizes[k];
  return set_input(c, d, request, i, row, (eco_shape){t->rank, dims}, data);
}

uint32_t eco_request_run(const ec_backend_call *c, const eco_delegate *d, eco_request *request,
                         ec_backend_arg *args) {
  for (size_t i = 0; i < d->inputs; i++) EC_BACKEND_TRY(give_input(c, d, request, i, &args[i]));
  if (d->lib->infer_request_infer(request) == 0) return EC_BACKEND_OK;
  return eco_library_fail(c, d->lib, EC_BACKEND_INTERNAL, "the model has not run");
}
