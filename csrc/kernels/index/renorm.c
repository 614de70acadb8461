/* embedding_renorm: scales listed rows with a norm above a limit down to it. */
#include "core/template.h"
#include "kernels/index/index.h"

#define EC_TEMPLATE "kernels/index/renorm.tmpl.h"
#include "core/foreach/floatc.h"
#undef EC_TEMPLATE

typedef double (*norm_fn)(int64_t n, const char *row, int64_t step, double p);
typedef void (*scale_fn)(int64_t n, char *row, int64_t step, double by);
static const norm_fn norms[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(norm)};
static const scale_fn scales[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(scale)};

ec_status ec_op_embedding_renorm_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *indices = ec_arg_tensor(c, 1);
  ec_tensor *out = ec_arg_tensor(c, 4);
  double most = ec_arg_double(c, 2), p = ec_arg_double(c, 3);
  int64_t *rows, n = indices->numel;
  uint8_t *done;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATC));
  EC_TRY(ec_call_check_same_dtype(c, 4, 0));
  EC_TRY(ec_call_check_rank(c, 0, 2, 2));
  EC_TRY(ec_index_read(c, 1, indices, 0, self->sizes[0], true, &rows));
  EC_TRY(ec_call_scratch(c, (size_t)self->sizes[0], 1, &done));
  EC_TRY(ec_call_resize(c, 4, 2, self->sizes));
  ec_copy_cast(c, out, self);
  int64_t item = (int64_t)ec_dtype_size(ec_tensor_dtype(out)), width = out->sizes[1];
  if (out->numel == 0) return EC_OK;
  for (int64_t i = 0; i < n; i++) {
    if (done[rows[i]]) continue;
    char *row = (char *)out->data + rows[i] * out->strides[0] * item;
    double norm = norms[out->dtype](width, row, out->strides[1] * item, p);
    if (norm > most) scales[out->dtype](width, row, out->strides[1] * item, most / (norm + 1e-7));
    done[rows[i]] = 1;
  }
  return EC_OK;
}
