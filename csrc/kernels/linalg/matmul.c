/* mm, _int_mm, bmm, addmm, addmv, addbmm and linear: shapes and strides for the matrix product. */
#include "core/small.h"
#include "kernels/linalg/gemm.h"
#include "kernels/linalg/kept.h"
#include "kernels/record.h"
#include "kernels/pointwise/elementwise.h"

#include <inttypes.h>
#include <string.h>

static ec_gemm_side side_of(const void *data, int64_t lane, int64_t k, ec_kept *kept) {
  return (ec_gemm_side){.data = data, .lane = lane, .k = k, .kept = kept};
}

/* Returns the matrix in the last two dimensions of a tensor, rows as lanes. */
static ec_gemm_side rows_of(const ec_tensor *t, ec_kept *kept) {
  return side_of(t->data, t->strides[t->rank - 2], t->strides[t->rank - 1], kept);
}

/* Returns the same matrix, columns as lanes. Sums do not depend on its memory format, except in
 * small builds. */
static ec_gemm_side columns_of(const ec_tensor *t, ec_kept *kept) {
  ec_gemm_side side = side_of(t->data, t->strides[t->rank - 1], t->strides[t->rank - 2], kept);
  side.turned = !EC_IS_SMALL && side.k == 1 && side.lane != 1;
  return side;
}

static ec_gemm_out matrix_of(const ec_tensor *t) {
  return (ec_gemm_out){.data = t->data, .row = t->strides[t->rank - 2],
                       .col = t->strides[t->rank - 1]};
}

static const void *element_at(const void *data, int64_t elements, ec_dtype dtype) {
  return (const char *)data + elements * (int64_t)ec_dtype_size(dtype);
}

/* Checks that arguments `a` and `b` are matrices (or batches, rank 3) that can be multiplied. */
static ec_status check_product(ec_call *c, size_t a, size_t b, size_t out, size_t rank) {
  EC_TRY(ec_call_check_dtype(c, a, EC_SET_CLASSICC));
  EC_TRY(ec_call_check_rank(c, a, rank, rank));
  EC_TRY(ec_call_check_rank(c, b, rank, rank));
  EC_TRY(ec_call_check_same_dtype(c, b, a));
  EC_TRY(ec_call_check_same_dtype(c, out, a));
  const ec_tensor *x = ec_arg_tensor(c, a), *y = ec_arg_tensor(c, b);
  if (rank == 3 && x->sizes[0] != y->sizes[0])
    return ec_call_fail(c, b, "batch of %" PRId64 ", expected %" PRId64 " as in '%s'", y->sizes[0],
                        x->sizes[0], c->op->args[a].name);
  if (x->sizes[rank - 1] != y->sizes[rank - 2])
    return ec_call_fail(c, b, "%" PRId64 " rows, expected %" PRId64 ", the columns of '%s'",
                        y->sizes[rank - 2], x->sizes[rank - 1], c->op->args[a].name);
  return EC_OK;
}

ec_status ec_op_mm_out(ec_call *c) {
  EC_TRY(check_product(c, 0, 1, 2, 2));
  EC_TRY(ec_call_check_rank(c, 2, 2, 2));
  const ec_tensor *self = ec_arg_tensor(c, 0), *mat2 = ec_arg_tensor(c, 1);
  ec_tensor *out = ec_arg_tensor(c, 2);
  ec_gemm_size size = {self->sizes[0], mat2->sizes[1], self->sizes[1]};
  EC_TRY(ec_call_resize(c, 2, 2, (int64_t[]){size.m, size.n}));
  ec_gemm_out to = matrix_of(out);
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, ec_tensor_dtype(self), size, &to, &g));
  g.record = ec_record_of(c);
  ec_gemm_side a = rows_of(self, ec_kept_of(c, 0)), b = columns_of(mat2, ec_kept_of(c, 1));
  ec_gemm_run(&g, &a, &b, &to);
  return EC_OK;
}

/* Copies a matrix of bytes as int32 to row-major scratch memory. */
static ec_status widen_to_int32(ec_call *c, size_t i, ec_tensor *t) {
  void *data;
  EC_TRY(ec_call_check_rank(c, i, 2, 2));
  EC_TRY(ec_call_packed(c, ec_arg_tensor(c, i), EC_INT32, &data));
  *t = *ec_arg_tensor(c, i);
  t->data = data;
  t->strides[0] = t->sizes[1];
  t->strides[1] = 1;
  return EC_OK;
}

ec_status ec_op_int_mm_out(ec_call *c) {
  ec_tensor self, mat2;
  EC_TRY(ec_call_check_dtype(c, 0, c->op->dtypes));
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_INT8)));
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(EC_INT32)));
  EC_TRY(widen_to_int32(c, 0, &self));
  EC_TRY(widen_to_int32(c, 1, &mat2));
  if (self.sizes[1] != mat2.sizes[0])
    return ec_call_fail(c, 1, "%" PRId64 " rows, expected %" PRId64 ", the columns of 'self'",
                        mat2.sizes[0], self.sizes[1]);
  ec_gemm_size size = {self.sizes[0], mat2.sizes[1], self.sizes[1]};
  EC_TRY(ec_call_check_rank(c, 2, 2, 2));
  EC_TRY(ec_call_resize(c, 2, 2, (int64_t[]){size.m, size.n}));
  ec_gemm_out to = matrix_of(ec_arg_tensor(c, 2));
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, EC_INT32, size, &to, &g));
  ec_gemm_side a = rows_of(&self, NULL), b = columns_of(&mat2, NULL);
  ec_gemm_run(&g, &a, &b, &to);
  return EC_OK;
}

/* True if all matrices of a constant batch have the same bytes: exporters expand the weight of a
 * linear layer whose input is transposed. Compares them once. */
static bool is_one_matrix(ec_kept *kept, const ec_tensor *t) {
  if (!kept || t->sizes[0] < 2 || !ec_tensor_is_contiguous(t)) return false;
  const size_t size = ec_tensor_nbytes(t) / (size_t)t->sizes[0];
  if (kept->batch == EC_KEPT_BATCH_UNKNOWN)
    /* each matrix is the next one */
    kept->batch = memcmp(t->data, (const char *)t->data + size, ec_tensor_nbytes(t) - size) == 0
                      ? EC_KEPT_BATCH_EQUAL
                      : EC_KEPT_BATCH_DIFFERENT;
  return kept->batch == EC_KEPT_BATCH_EQUAL;
}

/* Joins the products of a batch with one matrix on the right: its rows are those of one product.
 * Returns the number of products that are left. */
static int64_t join_batch(ec_call *c, ec_gemm_size *size) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *mat2 = ec_arg_tensor(c, 1);
  if (!ec_tensor_is_contiguous(self) || !ec_tensor_is_contiguous(ec_arg_tensor(c, 2)) ||
      !is_one_matrix(ec_kept_of(c, 1), mat2))
    return self->sizes[0];
  size->m *= self->sizes[0];
  return 1;
}

ec_status ec_op_bmm_out(ec_call *c) {
  EC_TRY(check_product(c, 0, 1, 2, 3));
  EC_TRY(ec_call_check_rank(c, 2, 3, 3));
  const ec_tensor *self = ec_arg_tensor(c, 0), *mat2 = ec_arg_tensor(c, 1);
  ec_tensor *out = ec_arg_tensor(c, 2);
  ec_gemm_size size = {self->sizes[1], mat2->sizes[2], self->sizes[2]};
  EC_TRY(ec_call_resize(c, 2, 3, (int64_t[]){self->sizes[0], size.m, size.n}));
  if (out->numel == 0) return EC_OK;
  ec_gemm_out to = matrix_of(out);
  ec_dtype dtype = ec_tensor_dtype(self);
  const int64_t products = join_batch(c, &size);
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, dtype, size, &to, &g));
  g.record = ec_record_of(c);
  for (int64_t i = 0; i < products; i++) {
    ec_gemm_side a = rows_of(self, ec_kept_of(c, 0)), b = columns_of(mat2, ec_kept_of(c, 1));
    a.data = element_at(self->data, i * self->strides[0], dtype);
    b.data = element_at(mat2->data, i * mat2->strides[0], dtype);
    to.data = (char *)out->data + i * out->strides[0] * (int64_t)ec_dtype_size(dtype);
    ec_gemm_run(&g, &a, &b, &to);
  }
  return EC_OK;
}

/* Repeats argument `i` to m x n as the added matrix. */
static ec_status broadcast_added(ec_call *c, size_t i, int64_t m, int64_t n, ec_gemm_out *to) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  EC_TRY(ec_call_check_rank(c, i, 0, 2));
  int64_t rows = t->rank == 2 ? t->sizes[0] : 1, cols = t->rank ? t->sizes[t->rank - 1] : 1;
  if ((rows != 1 && rows != m) || (cols != 1 && cols != n)) {
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, i, "shape %s, expected one that broadcasts to (%" PRId64
                        ", %" PRId64 ")",
                        ec_shape_text(t->sizes, t->rank, text, sizeof text), m, n);
  }
  to->add = t->data;
  to->add_row = rows == 1 ? 0 : t->strides[0];
  to->add_col = cols == 1 ? 0 : t->strides[t->rank - 1];
  return EC_OK;
}

/* Returns no factor for 1, which selects the faster store. */
static ec_scalar factor_or_none(const ec_call *c, size_t i) {
  ec_scalar s = ec_arg_scalar(c, i);
  if (ec_scalar_double(s) == 1.0) s.kind = EC_KIND_NONE;
  return s;
}

/* C = beta * self + alpha * A B, with self as argument 0, beta as 3, alpha as 4. For a batch the
 * next product is added to C. */
static ec_status run_added(ec_call *c, ec_gemm_size size, ec_gemm_out to, ec_gemm_side a,
                           ec_gemm_side b, int64_t batch) {
  const ec_tensor *x = ec_arg_tensor(c, 1), *y = ec_arg_tensor(c, 2);
  ec_dtype dtype = ec_tensor_dtype(x);
  for (size_t i = 3; i <= 4; i++) EC_TRY(ec_call_check_scalar(c, i, ec_compute_dtype(dtype)));
  to.beta = factor_or_none(c, 3);
  to.alpha = factor_or_none(c, 4);
  bool ignored = to.beta.kind != EC_KIND_NONE &&
                 (ec_is_integral(dtype) ? ec_scalar_int(to.beta) == 0
                                        : ec_scalar_double(to.beta) == 0);
  if (ignored) to.add = NULL; /* even its NaNs are ignored */
  if (batch == 0) size.k = 0;
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, dtype, size, &to, &g));
  g.record = ec_record_of(c);
  ec_gemm_run(&g, &a, &b, &to);
  to.add = to.data;
  to.add_row = to.row;
  to.add_col = to.col;
  to.beta.kind = EC_KIND_NONE;
  for (int64_t i = 1; i < batch && size.m && size.n; i++) {
    a.data = element_at(x->data, i * x->strides[0], dtype);
    b.data = element_at(y->data, i * y->strides[0], dtype);
    ec_gemm_run(&g, &a, &b, &to);
  }
  return EC_OK;
}

static ec_status run_addmm(ec_call *c, size_t rank) {
  EC_TRY(ec_call_check_rank(c, 5, 2, 2));
  EC_TRY(check_product(c, 1, 2, 5, rank));
  EC_TRY(ec_call_check_same_dtype(c, 0, 1));
  const ec_tensor *mat1 = ec_arg_tensor(c, 1), *mat2 = ec_arg_tensor(c, 2);
  ec_gemm_size size = {mat1->sizes[rank - 2], mat2->sizes[rank - 1], mat1->sizes[rank - 1]};
  EC_TRY(ec_call_resize(c, 5, 2, (int64_t[]){size.m, size.n}));
  ec_gemm_out to = matrix_of(ec_arg_tensor(c, 5));
  EC_TRY(broadcast_added(c, 0, size.m, size.n, &to));
  return run_added(c, size, to, rows_of(mat1, ec_kept_of(c, 1)), columns_of(mat2, ec_kept_of(c, 2)),
                   rank == 3 ? mat1->sizes[0] : 1);
}

ec_status ec_op_addmm_out(ec_call *c) { return run_addmm(c, 2); }

ec_status ec_op_addbmm_out(ec_call *c) { return run_addmm(c, 3); }

ec_status ec_op_addmv_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *mat = ec_arg_tensor(c, 1);
  const ec_tensor *vec = ec_arg_tensor(c, 2);
  ec_tensor *out = ec_arg_tensor(c, 5);
  EC_TRY(ec_call_check_dtype(c, 1, EC_SET_CLASSICC));
  EC_TRY(ec_call_check_rank(c, 0, 0, 1));
  EC_TRY(ec_call_check_rank(c, 1, 2, 2));
  EC_TRY(ec_call_check_rank(c, 2, 1, 1));
  EC_TRY(ec_call_check_rank(c, 5, 1, 1));
  const size_t same[] = {0, 2, 5};
  for (size_t i = 0; i < 3; i++) EC_TRY(ec_call_check_same_dtype(c, same[i], 1));
  int64_t m = mat->sizes[0], k = mat->sizes[1];
  if (vec->sizes[0] != k)
    return ec_call_fail(c, 2, "%" PRId64 " elements, expected %" PRId64 ", the columns of 'mat'",
                        vec->sizes[0], k);
  if (self->rank && self->sizes[0] != 1 && self->sizes[0] != m)
    return ec_call_fail(c, 0, "%" PRId64 " elements, expected %" PRId64 ", the rows of 'mat'",
                        self->sizes[0], m);
  EC_TRY(ec_call_resize(c, 5, 1, &m));
  ec_gemm_out to = {.data = out->data, .row = 1, .col = 1, .add = self->data,
                    .add_row = self->numel == 1 ? 0 : 1};
  ec_gemm_side b = side_of(vec->data, 1, 1, NULL);
  return run_added(c, (ec_gemm_size){m, 1, k}, to, rows_of(mat, ec_kept_of(c, 1)), b, 1);
}

/* Collapses leading dimensions [from, to) of a tensor into one row index. Returns false if they
 * have no common stride. */
static bool collapse_dims(const ec_tensor *t, size_t from, size_t to, int64_t *stride) {
  int64_t expected = -1;
  *stride = 1;
  for (size_t d = to; d-- > from;) {
    if (t->sizes[d] == 1) continue;
    if (expected < 0) *stride = t->strides[d];
    else if (t->strides[d] != expected) return false;
    expected = t->strides[d] * t->sizes[d];
  }
  return true;
}

typedef struct linear_args {
  const ec_tensor *input, *weight, *bias;
  ec_tensor *out;
  size_t lead; /* number of the input's dimensions before the last */
  int64_t n, k;
} linear_args;

static ec_status check_linear(ec_call *c, linear_args *l) {
  *l = (linear_args){ec_arg_tensor(c, 0), ec_arg_tensor(c, 1), ec_arg_opt_tensor(c, 2),
                     ec_arg_tensor(c, 3), 0, 1, 0};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_CLASSICC));
  EC_TRY(ec_call_check_rank(c, 0, 1, EC_MAX_RANK));
  EC_TRY(ec_call_check_rank(c, 1, 1, 2));
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  EC_TRY(ec_call_check_same_dtype(c, 3, 0));
  l->lead = l->input->rank - 1u;
  l->k = l->input->sizes[l->lead];
  if (l->weight->rank == 2) l->n = l->weight->sizes[0];
  int64_t columns = l->weight->sizes[l->weight->rank - 1];
  if (columns != l->k)
    return ec_call_fail(c, 1, "%" PRId64 " columns, expected %" PRId64 ", the last size of 'input'",
                        columns, l->k);
  if (!l->bias) return EC_OK;
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  if (l->weight->rank == 1)
    return ec_call_fail(c, 2, "given with a 'weight' of one dimension, expected None");
  EC_TRY(ec_call_check_rank(c, 2, 0, 1));
  if (l->bias->rank == 1 && l->bias->sizes[0] != 1 && l->bias->sizes[0] != l->n)
    return ec_call_fail(c, 2, "%" PRId64 " elements, expected %" PRId64 ", the rows of 'weight'",
                        l->bias->sizes[0], l->n);
  return EC_OK;
}

/* Runs the product for every index of the leading dimensions that are not collapsed. */
static void run_linear(const linear_args *l, size_t batch, const ec_gemm *g, ec_gemm_side a,
                       const ec_gemm_side *b, ec_gemm_out to) {
  int64_t index[EC_MAX_RANK] = {0};
  int64_t size = (int64_t)ec_dtype_size(ec_tensor_dtype(l->input));
  for (;;) {
    int64_t from = 0, at = 0;
    for (size_t d = 0; d < batch; d++) {
      from += index[d] * l->input->strides[d];
      at += index[d] * l->out->strides[d];
    }
    a.data = (const char *)l->input->data + from * size;
    to.data = (char *)l->out->data + at * size;
    ec_gemm_run(g, &a, b, &to);
    size_t d = batch;
    while (d > 0 && ++index[d - 1] == l->input->sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

ec_status ec_op_linear_out(ec_call *c) {
  linear_args l;
  EC_TRY(check_linear(c, &l));
  int64_t sizes[EC_MAX_RANK];
  for (size_t d = 0; d < l.lead; d++) sizes[d] = l.input->sizes[d];
  sizes[l.lead] = l.n;
  size_t rank = l.weight->rank == 2 ? l.lead + 1 : l.lead;
  EC_TRY(ec_call_check_rank(c, 3, rank, rank));
  EC_TRY(ec_call_resize(c, 3, rank, sizes));
  if (l.out->numel == 0) return EC_OK;
  ec_gemm_side a = side_of(l.input->data, 1, l.input->strides[l.lead], NULL);
  ec_gemm_out to = {.data = l.out->data, .col = 1};
  if (l.weight->rank == 2) to.col = l.out->strides[l.lead];
  size_t batch = 0;
  while (!collapse_dims(l.input, batch, l.lead, &a.lane) ||
         !collapse_dims(l.out, batch, l.lead, &to.row))
    batch++;
  int64_t m = 1;
  for (size_t d = batch; d < l.lead; d++) m *= sizes[d];
  size_t last = l.weight->rank - 1u;
  ec_gemm_side b = side_of(l.weight->data, last ? l.weight->strides[0] : 1,
                           l.weight->strides[last], ec_kept_of(c, 1));
  if (l.bias) {
    to.add = l.bias->data;
    to.add_col = l.bias->numel == 1 ? 0 : 1;
  }
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, ec_tensor_dtype(l.input), (ec_gemm_size){m, l.n, l.k}, &to, &g));
  g.record = ec_record_of(c);
  run_linear(&l, batch, &g, a, &b, to);
  return EC_OK;
}
