/* Operands of the normalisations, and the table of their loops. */
#include "kernels/norm/norm.h"

#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"

enum { NORM_LANES = 16, NORM_BLOCK = 1024 };

#define EC_TEMPLATE "kernels/norm/norm.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

#define ROW(name)                                                                                  \
  {EC_KEEP(name, moments_##name), EC_KEEP(name, normalize_##name), EC_KEEP(name, affine_##name),   \
   EC_KEEP(name, channels_##name)}

const ec_norm_loops ec_norm_loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16),
    [EC_BFLOAT16] = ROW(bfloat16),
    [EC_FLOAT32] = ROW(float32),
    [EC_FLOAT64] = ROW(float64),
};

/* Creates a row-major view in scratch for a tensor's elements as `dtype`. */
static ec_status row_major(ec_call *c, const ec_tensor *t, ec_dtype dtype, ec_view *view) {
  size_t bytes;
  *view = ec_view_of(t);
  view->dtype = dtype;
  view->data = NULL;
  if (ec_mul_size((size_t)t->numel, ec_dtype_size(dtype), &bytes))
    view->data = ec_arena_alloc(c->scratch, bytes, EC_ALIGN);
  if (!view->data)
    return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a row-major copy");
  uint8_t order[EC_MAX_RANK];
  for (size_t d = 0; d < t->rank; d++) order[d] = (uint8_t)d;
  ec_strides(t->sizes, order, t->rank, view->strides);
  return EC_OK;
}

static ec_status copy_packed(ec_call *c, const ec_tensor *t, ec_dtype dtype, const void **data) {
  ec_view to, from = ec_view_of(t);
  EC_TRY(row_major(c, t, dtype, &to));
  ec_copy_view(c, &to, &from);
  *data = to.data;
  return EC_OK;
}

ec_status ec_norm_contiguous(ec_call *c, const ec_tensor *t, const void **data) {
  *data = t->data;
  return ec_tensor_is_contiguous(t) ? EC_OK : copy_packed(c, t, ec_tensor_dtype(t), data);
}

ec_status ec_norm_target(ec_call *c, ec_tensor *out, void **data) {
  *data = out->data;
  if (ec_tensor_is_contiguous(out)) return EC_OK;
  ec_view view;
  EC_TRY(row_major(c, out, ec_tensor_dtype(out), &view));
  *data = view.data;
  return EC_OK;
}

/* Returns a view of row-major memory with a tensor's sizes. */
static ec_view view_of(const ec_tensor *t, const void *data, ec_dtype dtype) {
  ec_view view = ec_view_of(t);
  uint8_t order[EC_MAX_RANK];
  for (size_t d = 0; d < t->rank; d++) order[d] = (uint8_t)d;
  ec_strides(t->sizes, order, t->rank, view.strides);
  view.data = (char *)data;
  view.dtype = dtype;
  return view;
}

void ec_norm_flush(const ec_call *c, ec_tensor *out, const void *data) {
  if (data == out->data) return;
  ec_view to = ec_view_of(out), from = view_of(out, data, ec_tensor_dtype(out));
  ec_copy_view(c, &to, &from);
}

void ec_norm_store(const ec_call *c, ec_tensor *out, const double *values) {
  ec_view to = ec_view_of(out), from = view_of(out, values, EC_FLOAT64);
  ec_copy_view(c, &to, &from);
}

ec_status ec_norm_parameter(ec_call *c, const ec_tensor *t, ec_dtype dtype, const void **data) {
  ec_dtype computed = ec_norm_computed(dtype);
  *data = t ? t->data : NULL;
  if (!t || (ec_tensor_dtype(t) == computed && ec_tensor_is_contiguous(t))) return EC_OK;
  return copy_packed(c, t, computed, data);
}

ec_status ec_norm_check_parameter(ec_call *c, size_t i, size_t *first) {
  if (ec_arg_is_none(c, i)) return EC_OK;
  ec_dtype input = ec_tensor_dtype(ec_arg_tensor(c, 0));
  ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, i));
  if (*first) return ec_call_check_same_dtype(c, i, *first - 1);
  *first = i + 1;
  if (dtype == input || (dtype == EC_FLOAT32 && ec_dtype_in(input, EC_SET_HALF))) return EC_OK;
  return ec_call_check_same_dtype(c, i, 0);
}
