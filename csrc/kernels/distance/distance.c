/* _cdist_forward and _pdist_forward: distances between rows, always computed from differences. The
 * matrix product that eager PyTorch may use for p = 2 suffers cancellation for close rows. */
#include <inttypes.h>
#include <string.h>
#include <tgmath.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/copy.h"

enum { LANES = 8 };

/* NORM_MAX ignores NaN as eager's cdist does, NORM_MAX_NAN propagates it as its pdist. */
typedef enum norm_kind {
  NORM_COUNT,
  NORM_SUM,
  NORM_SQUARE,
  NORM_MAX,
  NORM_MAX_NAN,
  NORM_POWER
} norm_kind;

typedef struct ec_distance {
  norm_kind kind;
  double p;
  int64_t n;
} ec_distance;

#define EC_TEMPLATE "kernels/distance/distance.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

typedef void (*distance_fn)(const ec_distance *d, char *out, int64_t step, const char *x,
                            const char *others, int64_t count);
static const distance_fn loops[EC_DTYPE_COUNT] = {EC_ROWS_WIDE(distances)};

static ec_status start_distance(ec_call *c, size_t p, norm_kind most, const ec_tensor *x,
                                ec_distance *d) {
  d->p = ec_arg_double(c, p);
  d->n = x->sizes[x->rank - 1];
  if (!(d->p >= 0)) return ec_call_fail(c, p, "%g, expected 0 or more", d->p);
  d->kind = d->p == 0    ? NORM_COUNT
            : d->p == 1  ? NORM_SUM
            : d->p == 2  ? NORM_SQUARE
            : isinf(d->p) ? most
                         : NORM_POWER;
  return EC_OK;
}

/* Returns a view of x, or of a copy, with contiguous rows. */
static ec_status pack_rows(ec_call *c, const ec_tensor *x, ec_view *out) {
  const size_t last = x->rank - 1;
  const int64_t columns = ec_max_i64(x->sizes[last], 1);
  const ec_view from = ec_view_of(x);
  *out = from;
  if ((x->sizes[last] == 1 || x->strides[last] == 1) &&
      (x->sizes[last - 1] == 1 || x->strides[last - 1] == columns))
    return EC_OK;
  int64_t stride = 1;
  for (size_t i = x->rank; i--;) {
    out->strides[i] = stride;
    stride *= ec_max_i64(x->sizes[i], 1);
  }
  EC_TRY(ec_call_scratch(c, (size_t)x->numel, ec_dtype_size(from.dtype), &out->data));
  ec_copy_view(c, out, &from);
  return EC_OK;
}

static void all_pairs(const ec_distance *d, const ec_tensor *out, const ec_view *x1,
                      const ec_view *x2) {
  const size_t batch = out->rank - 2, item = ec_dtype_size(x1->dtype);
  const int64_t rows = out->sizes[batch], columns = out->sizes[batch + 1];
  const int64_t down = out->strides[batch] * (int64_t)item;
  const int64_t step = out->strides[batch + 1] * (int64_t)item, row = d->n * (int64_t)item;
  ec_iter it;
  ec_iter_init(&it, batch, out->sizes);
  ec_iter_add(&it, out->data, item, batch, out->sizes, out->strides);
  ec_iter_add(&it, x1->data, item, x1->rank - 2, x1->sizes, x1->strides);
  ec_iter_add(&it, x2->data, item, x2->rank - 2, x2->sizes, x2->strides);
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it))
    for (int64_t i = 0; i < it.count; i++)
      for (int64_t r = 0; r < rows; r++)
        loops[x1->dtype](d, it.at[0] + i * it.step[0] + r * down, step,
                         it.at[1] + i * it.step[1] + r * row, it.at[2] + i * it.step[2], columns);
}

ec_status ec_op_cdist_forward_out(ec_call *c) {
  const ec_tensor *x1 = ec_arg_tensor(c, 0), *x2 = ec_arg_tensor(c, 1);
  const int64_t mode = ec_arg_opt_int(c, 3, 0);
  ec_distance d;
  size_t rank = 0;
  int64_t sizes[EC_MAX_RANK];
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_FLOAT32) | EC_BIT(EC_FLOAT64)));
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  EC_TRY(ec_call_check_same_dtype(c, 4, 0));
  EC_TRY(ec_call_check_rank(c, 0, 2, EC_MAX_RANK));
  EC_TRY(ec_call_check_rank(c, 1, 2, EC_MAX_RANK));
  EC_TRY(start_distance(c, 2, NORM_MAX, x1, &d));
  if (x2->sizes[x2->rank - 1] != d.n)
    return ec_call_fail(c, 1, "%" PRId64 " columns, expected %" PRId64, x2->sizes[x2->rank - 1],
                        d.n);
  if (mode < 0 || mode > 2) return ec_call_fail(c, 3, "%" PRId64 ", expected 0, 1 or 2", mode);
  for (size_t k = 0; k < 2; k++) {
    ec_tensor batch = *ec_arg_tensor(c, k);
    batch.rank = (uint8_t)(batch.rank - 2);
    EC_TRY(ec_call_broadcast(c, k, &batch, &rank, sizes));
  }
  sizes[rank++] = x1->sizes[x1->rank - 2];
  sizes[rank++] = x2->sizes[x2->rank - 2];
  EC_TRY(ec_call_resize(c, 4, rank, sizes));
  ec_view a, b;
  if (!ec_arg_tensor(c, 4)->numel) return EC_OK;
  EC_TRY(pack_rows(c, x1, &a));
  EC_TRY(pack_rows(c, x2, &b));
  all_pairs(&d, ec_arg_tensor(c, 4), &a, &b);
  return EC_OK;
}

ec_status ec_op_pdist_forward_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_distance d;
  ec_view x;
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_FLOAT32) | EC_BIT(EC_FLOAT64)));
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  EC_TRY(ec_call_check_rank(c, 0, 2, 2));
  EC_TRY(start_distance(c, 1, NORM_MAX_NAN, self, &d));
  const int64_t n = self->sizes[0];
  int64_t pairs = 0;
  if (n > 1 && !ec_mul_i64(n % 2 ? n : n - 1, n / 2, &pairs)) /* n (n - 1) / 2 */
    return ec_call_fail(c, 0, "%" PRId64 " rows have too many pairs", n);
  EC_TRY(ec_call_resize(c, 2, 1, &pairs));
  if (!pairs) return EC_OK;
  EC_TRY(pack_rows(c, self, &x));
  const int64_t item = (int64_t)ec_dtype_size(x.dtype);
  char *out = ec_arg_tensor(c, 2)->data;
  for (int64_t i = 0; i + 1 < n; out += (n - 1 - i) * item, i++) {
    const char *row = x.data + i * d.n * item;
    loops[x.dtype](&d, out, item, row, row + d.n * item, n - 1 - i);
  }
  return EC_OK;
}
