/* Linear layers and matrix products, delegated at load. */
#include <string.h>

#include "delegate_at_load/delegation.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/integers.h"
#include "delegate_at_load/weights.h"
#include "payload/schema.h"

/* Reads a constant as it is. Its name lets methods of a program share the packed weights. */
static uint32_t read_weight(ecx_delegation *b, const ec_backend_value *v, const ecx_shape *shape) {
  const size_t dims[5] = {1, 1, 1, 1, ecx_elements(v)};
  const int64_t strides[5] = {0, 0, 0, 0, 1};
  return ecx_copy_constant(b, v, shape, dims, strides, "plain");
}

static bool is_matrix(const ec_backend_value *v) { return v && v->tensor.rank == 2; }

static bool is_bias(const ec_backend_value *v, size_t count) {
  return !v || (ecx_is_constant(v) && ecx_elements(v) == count && v->tensor.rank &&
                (size_t)v->tensor.sizes[v->tensor.rank - 1] == count);
}

/* Reads a matrix of integers as rows of inputs. Returns ECX_NONE if it is none. */
static uint32_t read_integers(ecx_delegation *b, const ec_backend_value *w, bool transposed) {
  const size_t out = transposed ? 1 : 0, rows = (size_t)w->tensor.sizes[out];
  const size_t columns = (size_t)w->tensor.sizes[!out];
  ecx_weights codes;
  if (!ecx_find_weights(w, &codes) || (codes.axis != 2 && codes.axis != out)) return ECX_NONE;
  const ecx_shape shape = {.rank = 2, .dims = {rows, columns}};
  return ecx_copy_weights(b, &codes, &shape, (size_t[5]){1, 1, 1, rows, columns},
                          (int64_t[5]){0, 0, 0, codes.strides[out], codes.strides[!out]}, 0, rows,
                          codes.strides[!out] == 1 ? "rows" : "columns");
}

/* Adds a product with a constant matrix, and a bias. */
static void add_linear(ecx_delegation *b, const ec_backend_kernel_call *call,
                       const ec_backend_value *x, const ec_backend_value *w,
                       const ec_backend_value *bias, bool transposed) {
  const size_t outer = w->tensor.dim_order[0];
  const ecx_shape filter = {.rank = 2, .dims = {(size_t)w->tensor.sizes[outer],
                                                (size_t)w->tensor.sizes[!outer]}};
  const ecx_shape row = {.rank = 1, .dims = {bias ? ecx_elements(bias) : 0}};
  const uint32_t integers = read_integers(b, w, transposed);
  transposed = integers == ECX_NONE && transposed != (outer == 1);
  const uint32_t dynamic = integers == ECX_NONE ? ECX_NONE : ecx_read_dynamic(b, x);
  const uint32_t in[3] = {dynamic != ECX_NONE ? dynamic : ecx_read(b, x, ECX_FORM_PLAIN),
                          integers != ECX_NONE ? integers : read_weight(b, w, &filter),
                          bias ? read_weight(b, bias, &row) : ECX_NONE};
  ecx_draft_node *n = ecx_draft_add(b->draft, ECX_KIND_FullyConnected, in, 3,
                                    ecx_write(b, ecx_arg_out(call), ECX_FORM_PLAIN));
  ecx_draft_set(n, ECX_FullyConnected_flags, transposed ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0);
}

/* Checks x [..., k] with w [n, k], or [k, n] if transposed. */
static const char *check_linear(const ec_backend_kernel_call *call, const ec_backend_value *x,
                                const ec_backend_value *w, const ec_backend_value *bias,
                                bool transposed) {
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  if (!ecx_is_constant(w)) return "its weight is computed";
  if (!is_matrix(w) || ecx_is_constant(x) || x->tensor.rank < 1) return "its shape";
  const size_t rank = x->tensor.rank;
  const int64_t rows = w->tensor.sizes[transposed], columns = w->tensor.sizes[!transposed];
  if (!is_bias(bias, (size_t)rows)) return "its bias";
  for (size_t d = 0; d < rank; d++) sizes[d] = x->tensor.sizes[d];
  if (sizes[rank - 1] != columns) return "its shape";
  sizes[rank - 1] = rows;
  return ecx_has_shape(ecx_arg_out(call), rank, sizes) ? NULL : "its shape";
}

const char *ecx_delegate_linear(ecx_delegation *b, const ecx_operator *row,
                                const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *x = ecx_arg_value(call, 0), *w = ecx_arg_value(call, 1);
  const ec_backend_value *bias = ecx_arg_value(call, 2);
  const char *reason = check_linear(call, x, w, bias, false);
  if (!reason && b) add_linear(b, call, x, w, bias, false);
  return reason;
}

const char *ecx_delegate_addmm(ecx_delegation *b, const ecx_operator *row,
                               const ec_backend_kernel_call *call) {
  (void)row;
  const ec_backend_value *bias = ecx_arg_value(call, 0), *x = ecx_arg_value(call, 1);
  const ec_backend_value *w = ecx_arg_value(call, 2);
  double beta, alpha;
  if (!ecx_arg_number(call, 3, &beta) || !ecx_arg_number(call, 4, &alpha) || beta != 1 ||
      alpha != 1)
    return "its factors";
  if (!is_matrix(x)) return "its shape";
  const char *reason = check_linear(call, x, w, bias, true);
  if (!reason && b) add_linear(b, call, x, w, bias, true);
  return reason;
}

/* True for the matrix of a linear layer that the exporter expands to a batch: kernels multiply all
 * rows by one of them (csrc/kernels/linalg/matmul.c), XNNPACK reads each. */
static bool is_expanded(const ec_backend_value *v) {
  return ecx_is_constant(v) && v->tensor.rank == 3 && v->from &&
         strcmp(v->from->op, "aten::expand_copy.out") == 0;
}

/* mm and bmm. */
const char *ecx_delegate_matmul(ecx_delegation *b, const ecx_operator *row,
                                const ec_backend_kernel_call *call) {
  const ec_backend_value *x = ecx_arg_value(call, 0), *y = ecx_arg_value(call, 1);
  const size_t rank = x->tensor.rank;
  if (is_matrix(x) && ecx_is_constant(y)) {
    const char *reason = check_linear(call, x, y, NULL, true);
    if (!reason && b) add_linear(b, call, x, y, NULL, true);
    return reason;
  }
  if (is_expanded(y)) return "a matrix that is expanded";
  if (rank < 2 || rank > 3 || y->tensor.rank != rank || ecx_is_constant(x)) return "its shape";
  const int64_t *m = x->tensor.sizes + rank - 2, *n = y->tensor.sizes + rank - 2;
  int64_t sizes[3] = {x->tensor.sizes[0], m[0], n[1]};
  if (m[1] != n[0] || (rank == 3 && x->tensor.sizes[0] != y->tensor.sizes[0]) ||
      !ecx_has_shape(ecx_arg_out(call), rank, rank == 3 ? sizes : sizes + 1))
    return "its shape";
  if (!b) return NULL;
  const uint32_t in[2] = {ecx_read(b, x, ECX_FORM_PLAIN), ecx_read(b, y, ECX_FORM_PLAIN)};
  ecx_draft_add(b->draft, row->kind, in, 2, ecx_write(b, ecx_arg_out(call), ECX_FORM_PLAIN));
  return NULL;
}
