/* _trilinear: the sum over some dimensions of the product of three tensors, each expanded by
 * dimensions of size 1. nn.functional.bilinear uses it. */
#include <inttypes.h>

#include "core/complex.h"
#include "core/template.h"
#include "kernels/copy.h"

#define EC_TEMPLATE "kernels/linalg/trilinear.tmpl.h"
#include "kernels/linalg/foreach_gemm.h"
#undef EC_TEMPLATE

static const ec_loop loops[EC_DTYPE_COUNT] = {
    EC_ROWS_FLOATC(multiply_add),         [EC_UINT8] = multiply_add_uint8,
    [EC_INT8] = multiply_add_int8,        [EC_INT16] = multiply_add_int16,
    [EC_INT32] = multiply_add_int32,      [EC_INT64] = multiply_add_int64,
};

/* Returns the accumulator dtype: EC_R of foreach_gemm.h; integers wrap, whatever their sign. */
static ec_dtype sums_of(ec_dtype d) {
  if (ec_is_complex(d)) return EC_COMPLEX128;
  return ec_is_floating(d) ? EC_FLOAT64 : d == EC_INT64 ? EC_INT64 : EC_INT32;
}

enum { I1, EXPAND1 = 3, SUMDIM = 6, UNROLL_DIM, OUT };

typedef struct trilinear {
  size_t rank;
  int64_t sizes[EC_MAX_RANK];
  uint32_t summed;
  ec_view in[3]; /* expanded */
} trilinear;

/* Reads an int list of distinct dimensions as bits. */
static ec_status read_dims(ec_call *c, size_t arg, size_t rank, uint32_t *mask, size_t *count) {
  ec_ints dims;
  size_t d;
  EC_TRY(ec_arg_ints(c, arg, &dims));
  *mask = 0;
  for (size_t i = 0; i < dims.n; i++) {
    EC_TRY(ec_call_wrap_dim(c, dims.v[i], rank, &d));
    if (*mask >> d & 1u) return ec_call_fail(c, arg, "dimension %zu is given twice", d);
    *mask |= 1u << d;
  }
  *count = dims.n;
  return EC_OK;
}

static ec_status expand_factor(ec_call *c, size_t i, trilinear *t) {
  ec_tensor *in = ec_arg_tensor(c, i);
  uint32_t mask;
  size_t count, from = 0;
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_CLASSICC));
  EC_TRY(ec_call_check_same_dtype(c, i, 0));
  EC_TRY(read_dims(c, EXPAND1 + i, t->rank, &mask, &count));
  if (in->rank + count != t->rank)
    return ec_call_fail(c, i, "%zu dimensions with those of '%s', expected %zu", in->rank + count,
                        c->op->args[EXPAND1 + i].name, t->rank);
  ec_view *v = &t->in[i];
  *v = (ec_view){.data = in->data, .dtype = ec_tensor_dtype(in), .rank = t->rank};
  for (size_t d = 0; d < t->rank; d++) {
    bool new_dim = mask >> d & 1u;
    v->sizes[d] = new_dim ? 1 : in->sizes[from];
    v->strides[d] = new_dim ? 0 : in->strides[from++];
    if (v->sizes[d] == 1) continue;
    if (t->sizes[d] != 1 && t->sizes[d] != v->sizes[d])
      return ec_call_fail(c, i, "%" PRId64 " in dimension %zu, expected %" PRId64, v->sizes[d], d,
                          t->sizes[d]);
    t->sizes[d] = v->sizes[d];
  }
  return EC_OK;
}

ec_status ec_op_trilinear_out(ec_call *c) {
  ec_ints dims;
  trilinear t = {0};
  size_t count, kept = 0, d;
  EC_TRY(ec_arg_ints(c, EXPAND1, &dims));
  if (ec_arg_tensor(c, I1)->rank + dims.n > EC_MAX_RANK)
    return ec_call_fail(c, EXPAND1, "%zu dimensions, too many", dims.n);
  t.rank = ec_arg_tensor(c, I1)->rank + dims.n;
  for (size_t i = 0; i < t.rank; i++) t.sizes[i] = 1;
  for (size_t i = 0; i < 3; i++) EC_TRY(expand_factor(c, i, &t));
  EC_TRY(read_dims(c, SUMDIM, t.rank, &t.summed, &count));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, UNROLL_DIM), t.rank, &d));
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK] = {0}, row[EC_MAX_RANK];
  for (size_t i = 0; i < t.rank; i++)
    if (!(t.summed >> i & 1u)) sizes[kept++] = t.sizes[i];
  EC_TRY(ec_call_check_same_dtype(c, OUT, 0));
  EC_TRY(ec_call_check_rank(c, OUT, kept, kept));
  EC_TRY(ec_call_resize(c, OUT, kept, sizes));
  ec_tensor *out = ec_arg_tensor(c, OUT);
  ec_view to = ec_view_of(out), sums = to;
  sums.dtype = sums_of(to.dtype);
  EC_TRY(ec_call_scratch(c, (size_t)out->numel, ec_dtype_size(sums.dtype), &sums.data));
  for (size_t i = 0, k = 0; i < t.rank; i++) {
    row[i] = t.summed >> i & 1u ? 1 : t.sizes[i];
    if (!(t.summed >> i & 1u)) strides[i] = out->strides[k++];
  }
  ec_iter it;
  ec_iter_init(&it, t.rank, t.sizes);
  ec_iter_add(&it, sums.data, ec_dtype_size(sums.dtype), t.rank, row, strides);
  for (size_t i = 0; i < 3; i++)
    ec_iter_add(&it, t.in[i].data, ec_dtype_size(to.dtype), t.rank, t.in[i].sizes,
                t.in[i].strides);
  for (bool more = out->numel && ec_iter_start(&it); more; more = ec_iter_next(&it))
    loops[to.dtype](it.count, it.at, it.step, NULL);
  if (out->numel) ec_copy_view(c, &to, &sums);
  return EC_OK;
}
