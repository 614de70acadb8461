/* One call: inputs are lent to the engine, outputs are copied from its own memory, whose shapes it
 * may choose. */
#include "execute.h"

#include <stdio.h>
#include <string.h>

typedef struct dtype_row {
  int32_t dtype;
  unsigned type; /* the engine's number */
  size_t size;
  const char *name;
} dtype_row;

static const dtype_row dtypes[] = {
#define EC_OV_DTYPE(dtype, type, size, name) {dtype, type, size, name},
#include "dtypes.def"
#undef EC_OV_DTYPE
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, INT64 = 4, MAX_RANK = 16 };

static const dtype_row *find_dtype(int32_t dtype) {
  for (size_t i = 0; i < DTYPES; i++)
    if (dtypes[i].dtype == dtype) return &dtypes[i];
  return NULL;
}

static const dtype_row *find_type(unsigned type) {
  for (size_t i = 0; i < DTYPES; i++)
    if (dtypes[i].type == type) return &dtypes[i];
  return NULL;
}

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

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool is_row_major(const ec_backend_tensor *t) {
  for (size_t i = 0; i < t->rank; i++)
    if (t->dim_order[i] != i) return false;
  return true;
}

/* Copies elements in row-major order. */
static void copy_row_major(const ec_backend_tensor *t, size_t size, char *out) {
  int64_t at[MAX_RANK] = {0}, offset = 0;
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
static void *input_bytes(const eco_call *c, const ec_backend_tensor *t, size_t size) {
  if (t->data && is_row_major(t)) return t->data;
  char *copy = c->host->scratch(c->call, t->nbytes ? t->nbytes : 1);
  if (copy && t->nbytes) copy_row_major(t, size, copy);
  return copy;
}

static uint32_t set_input(const eco_call *c, const eco_delegate *d, size_t i, const dtype_row *row,
                          eco_shape shape, void *data) {
  char what[64 + 24 * MAX_RANK], shown[24 * MAX_RANK];
  eco_tensor *tensor = NULL;
  int status = d->lib->tensor_create_from_host_ptr(row->type, shape, data, &tensor);
  if (status == 0)
    status = d->lib->infer_request_set_input_tensor_by_index(d->request, i, tensor);
  if (tensor) d->lib->tensor_free(tensor); /* the request holds its own reference */
  if (status == 0) return EC_BACKEND_OK;
  snprintf(what, sizeof what, "input %zu, %s", i,
           shape_text(shown, sizeof shown, row->name, (size_t)shape.rank, shape.dims));
  return eco_library_fail(c, d->lib, EC_BACKEND_INVALID_ARGUMENT, what);
}

static uint32_t set_number(const eco_call *c, const eco_delegate *d, size_t i,
                           ec_backend_arg *arg) {
  int64_t one = 1;
  if (arg->kind != EC_BACKEND_INT)
    return ECO_FAIL(c, EC_BACKEND_INVALID_ARGUMENT,
                    "input %zu has kind %u, expected a tensor or an int", i, arg->kind);
  return set_input(c, d, i, find_dtype(INT64), (eco_shape){1, &one}, &arg->as.i);
}

static uint32_t give_input(const eco_call *c, const eco_delegate *d, size_t i,
                           ec_backend_arg *arg) {
  if (arg->kind != EC_BACKEND_TENSOR) return set_number(c, d, i, arg);
  const ec_backend_tensor *t = &arg->as.tensor;
  const dtype_row *row = find_dtype(t->dtype);
  if (!row)
    return ECO_FAIL(c, EC_BACKEND_NOT_SUPPORTED, "input %zu has dtype number %d, which OpenVINO "
                    "does not have", i, (int)t->dtype);
  void *data = input_bytes(c, t, row->size);
  if (!data) return ECO_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for input %zu", i);
  int64_t dims[MAX_RANK];
  for (size_t k = 0; k < t->rank; k++) dims[k] = t->sizes[k];
  return set_input(c, d, i, row, (eco_shape){t->rank, dims}, data);
}

/* ---- outputs --------------------------------------------------------------------------------- */

typedef struct result {
  unsigned type;
  eco_shape shape;
  size_t size;
  void *data;
} result;

static bool read_result(const eco_library *lib, const eco_tensor *tensor, result *out) {
  return lib->tensor_get_element_type(tensor, &out->type) == 0 &&
         lib->tensor_get_byte_size(tensor, &out->size) == 0 &&
         (!out->size || lib->tensor_data(tensor, &out->data) == 0) &&
         lib->tensor_get_shape(tensor, &out->shape) == 0;
}

/* Resizes an output of the program and copies the result. The engine's tensors are row-major. */
static uint32_t store_result(const eco_call *c, size_t i, const result *r, ec_backend_arg *arg) {
  const dtype_row *row = find_type(r->type), *expected = NULL;
  const size_t rank = r->shape.rank > 0 ? (size_t)r->shape.rank : 0;
  if (arg->kind == EC_BACKEND_TENSOR) expected = find_dtype(arg->as.tensor.dtype);
  if (!expected || row != expected)
    return ECO_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                    "output %zu is %s in the model, %s in the program", i,
                    row ? row->name : "of an unknown dtype",
                    expected ? expected->name : "no tensor of a dtype that OpenVINO has");
  if (rank > MAX_RANK)
    return ECO_FAIL(c, EC_BACKEND_NOT_SUPPORTED, "output %zu has rank %zu, expected at most %d", i,
                    rank, MAX_RANK);
  ECO_TRY(c->host->resize(c->call, arg, rank, r->shape.dims));
  ec_backend_tensor *t = &arg->as.tensor;
  if (t->nbytes != r->size || !is_row_major(t))
    return ECO_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                    "output %zu has %zu bytes in the model, and %zu in %s order in the program", i,
                    r->size, t->nbytes, is_row_major(t) ? "the same" : "another");
  if (r->size) memcpy(t->data, r->data, r->size);
  return EC_BACKEND_OK;
}

static uint32_t copy_output(const eco_call *c, const eco_delegate *d, size_t i,
                            ec_backend_arg *arg) {
  const eco_library *lib = d->lib;
  eco_tensor *tensor = NULL;
  result r = {0};
  uint32_t status;
  if (lib->infer_request_get_output_tensor_by_index(d->request, i, &tensor) != 0 ||
      !read_result(lib, tensor, &r))
    status = eco_library_fail(c, lib, EC_BACKEND_INTERNAL, "an output cannot be read");
  else
    status = store_result(c, i, &r, arg);
  if (r.shape.dims) lib->shape_free(&r.shape);
  if (tensor) lib->tensor_free(tensor);
  return status;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void trace_nodes(const eco_call *c, const eco_delegate *d) {
  eco_profile profile = {0};
  if (d->lib->infer_request_get_profiling_info(d->request, &profile) != 0) return;
  for (size_t i = 0; i < profile.count; i++) {
    const eco_node *node = &profile.nodes[i];
    char name[256];
    if (node->status != ECO_EXECUTED) continue;
    snprintf(name, sizeof name, "%s (%s) %s", node->type, node->exec_type, node->name);
    const ec_backend_node row = {UINT32_MAX, name, (uint64_t)node->real_time * 1000u};
    c->host->trace_node(c->call, &row);
  }
  d->lib->profiling_info_list_free(&profile);
}

uint32_t eco_execute(const eco_call *c, eco_delegate *d, ec_backend_arg *args, size_t count) {
  const eco_library *lib;
  ECO_TRY(eco_library_open(c, &lib)); /* refuses a forked process */
  if (count != d->inputs + d->outputs)
    return ECO_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                    "the program passes %zu arguments, but the model has %zu inputs and %zu "
                    "outputs", count, d->inputs, d->outputs);
  for (size_t i = 0; i < d->inputs; i++) ECO_TRY(give_input(c, d, i, &args[i]));
  if (lib->infer_request_infer(d->request) != 0)
    return eco_library_fail(c, lib, EC_BACKEND_INTERNAL, "the model has not run");
  for (size_t i = 0; i < d->outputs; i++) ECO_TRY(copy_output(c, d, i, &args[d->inputs + i]));
  if (d->options.profile && c->host->trace_wants(c->call)) trace_nodes(c, d);
  d->calls++;
  return EC_BACKEND_OK;
}
