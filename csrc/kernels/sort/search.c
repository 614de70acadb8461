/* searchsorted and bucketize. */
#include <string.h>

#include "core/template.h"
#include "kernels/index/index.h"
#include "kernels/promote.h"
#include "kernels/sort/order.h"

/* One row of bounds and the values to search in it. */
typedef struct search_row {
  const void *bounds, *values;
  const int64_t *sorter; /* NULL, or positions in the row */
  int64_t *out;
  int64_t size, n, step; /* bounds, values; 0 for one repeated value */
  bool right;
} search_row;

#define EC_TEMPLATE "kernels/sort/search.tmpl.h"
#include "core/foreach/real.h"
#undef EC_TEMPLATE

typedef void (*search_fn)(const search_row *row);
static const search_fn searches[EC_DTYPE_COUNT] = {EC_ROWS_REAL(search)};

typedef struct arguments {
  size_t bounds, values, out; /* arguments; values may be a number */
  bool int32, right;
  const ec_tensor *sorter;
} arguments;

/* Checks that bounds have one row for all values, or one per row of the values. */
static ec_status check_shapes(ec_call *c, const arguments *a, const ec_tensor *bounds,
                              const ec_tensor *values) {
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  bool fits = bounds->rank == values->rank && bounds->rank > 0;
  for (size_t d = 0; fits && d + 1 < bounds->rank; d++)
    fits = bounds->sizes[d] == values->sizes[d];
  if (fits || bounds->rank == 1) return EC_OK;
  return ec_call_fail(c, a->bounds, "rows of shape %s do not fit to values of shape %s",
                      ec_shape_text(bounds->sizes, bounds->rank, actual, sizeof actual),
                      ec_shape_text(values->sizes, values->rank, expected, sizeof expected));
}

static ec_status read_sorter(ec_call *c, const arguments *a, const ec_tensor *bounds,
                             int64_t **sorter) {
  *sorter = NULL;
  if (!a->sorter) return EC_OK;
  if (!ec_tensor_same_sizes(a->sorter, bounds))
    return ec_call_fail(c, 5, "expected the shape of the sorted sequence");
  EC_TRY(ec_call_check_dtype(c, 5, EC_BIT(EC_INT64)));
  size_t dim = (size_t)bounds->rank - 1;
  return ec_index_read(c, 5, a->sorter, dim, bounds->sizes[dim], false, sorter);
}

/* Initialises a number as a 0-d tensor. */
static void init_number(ec_scalar s, ec_tensor *t, void *element) {
  *t = (ec_tensor){.data = element, .capacity = 16, .numel = 1};
  t->dtype = (uint8_t)ec_scalar_dtype(s);
  ec_cast_scalar(ec_tensor_dtype(t), s, element);
}

static ec_status find_bounds(ec_call *c, const arguments *a, const ec_tensor *values,
                             ec_dtype dtype) {
  const ec_tensor *bounds = ec_arg_tensor(c, a->bounds);
  ec_tensor *out = ec_arg_tensor(c, a->out), indices;
  int64_t *sorter, n = values->numel;
  void *b, *v;
  search_row r = {.right = a->right, .step = 1};
  EC_TRY(check_shapes(c, a, bounds, values));
  EC_TRY(read_sorter(c, a, bounds, &sorter));
  EC_TRY(ec_call_packed(c, bounds, dtype, &b));
  EC_TRY(ec_call_packed(c, values, dtype, &v));
  EC_TRY(ec_tensor_init(&indices, EC_INT64, values->rank, values->sizes, NULL, c->err));
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *r.out, &indices.data));
  EC_TRY(ec_call_resize(c, a->out, values->rank, values->sizes));
  r.size = bounds->sizes[bounds->rank - 1];
  r.n = bounds->rank == 1 ? n : values->sizes[values->rank - 1];
  size_t item = ec_dtype_size(dtype);
  for (int64_t at = 0, row = 0; at < n; at += r.n, row++) {
    r.bounds = (const char *)b + (size_t)(row * r.size) * item;
    r.sorter = sorter ? sorter + row * r.size : NULL;
    r.values = (const char *)v + (size_t)at * item;
    r.out = (int64_t *)indices.data + at;
    searches[dtype](&r);
  }
  ec_copy_cast(c, out, &indices);
  return EC_OK;
}

static ec_status run_search(ec_call *c, const arguments *a, bool is_number) {
  const ec_tensor *bounds = ec_arg_tensor(c, a->bounds), *values;
  _Alignas(16) char element[16];
  ec_tensor one;
  ec_result_type type = {0};
  ec_dtype dtype;
  ec_result_add_tensor(&type, bounds);
  if (is_number) {
    init_number(ec_arg_scalar(c, a->values), &one, element);
    ec_result_add_scalar(&type, ec_arg_scalar(c, a->values));
    values = &one;
  } else {
    values = ec_arg_tensor(c, a->values);
    ec_result_add_tensor(&type, values);
  }
  EC_TRY(ec_result_dtype(c, &type, &dtype));
  if (!ec_dtype_in(dtype, EC_SET_REAL) && values->numel) /* eager does not check empty tensors */
    return ec_call_fail(c, a->bounds, "%s is not ordered", ec_dtype_name(dtype));
  EC_TRY(ec_call_check_dtype(c, a->out, EC_BIT(a->int32 ? EC_INT32 : EC_INT64)));
  return find_bounds(c, a, values, dtype);
}

static ec_status run_searchsorted(ec_call *c, bool is_number) {
  arguments a = {.bounds = 0, .values = 1, .out = 6, .int32 = ec_arg_bool(c, 2),
                 .right = ec_arg_bool(c, 3), .sorter = ec_arg_opt_tensor(c, 5)};
  const char *side = ec_arg_string(c, 4);
  bool is_right = side && strcmp(side, "right") == 0;
  if (side && !is_right && strcmp(side, "left") != 0)
    return ec_call_fail(c, 4, "\"%.20s\", expected \"left\" or \"right\"", side);
  if (side && a.right && !is_right)
    return ec_call_fail(c, 4, "\"left\", but argument 'right' is true");
  a.right |= is_right;
  return run_search(c, &a, is_number);
}

static ec_status run_bucketize(ec_call *c, bool is_number) {
  arguments a = {.bounds = 1, .values = 0, .out = 4, .int32 = ec_arg_bool(c, 2),
                 .right = ec_arg_bool(c, 3)};
  if (ec_arg_tensor(c, 1)->rank != 1)
    return ec_call_fail(c, 1, "%u dimensions, expected 1", (unsigned)ec_arg_tensor(c, 1)->rank);
  return run_search(c, &a, is_number);
}

ec_status ec_op_searchsorted_Tensor_out(ec_call *c) { return run_searchsorted(c, false); }
ec_status ec_op_searchsorted_Scalar_out(ec_call *c) { return run_searchsorted(c, true); }
ec_status ec_op_bucketize_Tensor_out(ec_call *c) { return run_bucketize(c, false); }
ec_status ec_op_bucketize_Scalar_out(ec_call *c) { return run_bucketize(c, true); }
