/* Distinct elements, or distinct slices along a dimension: unique, in order or consecutive. */
#include <string.h>

#include "kernels/index/index.h"
#include "kernels/sort/order.h"

/* Slices of a tensor along one dimension. Each has an element in every column. */
typedef struct slices {
  ec_tensor in; /* flattened without a dimension */
  bool flat;
  size_t dim, rank; /* of one slice */
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  int64_t n, columns, *offsets; /* of the columns in the first slice */
  int64_t *at;                  /* the order of the slices */
  uint8_t *begins;              /* 1 for the first of equal ones in that order */
  int64_t count;
  ec_order o;
} slices;

/* Copies elements in row-major order, for positions in the flattened tensor. */
static ec_status flatten_input(ec_call *c, ec_tensor *t) {
  ec_tensor flat = *t;
  EC_TRY(ec_call_packed(c, t, ec_tensor_dtype(t), &flat.data));
  flat.rank = 1;
  flat.sizes[0] = flat.numel;
  flat.strides[0] = 1;
  flat.dim_order[0] = 0;
  *t = flat;
  return EC_OK;
}

/* Initialises the columns of slices; `dim` NULL: every element is a slice. */
static ec_status open_slices(ec_call *c, const int64_t *dim, slices *s) {
  s->in = *ec_arg_tensor(c, 0);
  s->columns = 1;
  s->flat = dim == NULL;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REALB));
  if (dim && s->in.rank == 0) return ec_call_fail(c, 0, "a 0-d tensor has no dimensions");
  if (dim) EC_TRY(ec_call_wrap_dim(c, *dim, s->in.rank, &s->dim));
  else EC_TRY(flatten_input(c, &s->in));
  s->n = s->in.sizes[s->dim];
  for (size_t d = 0; d < s->in.rank; d++) {
    if (d == s->dim) continue;
    if (s->n && s->in.sizes[d] == 0)
      return ec_call_fail(c, 0, "dimension %zu has no elements, the slices are all alike", d);
    s->columns *= s->in.sizes[d]; /* at most numel, or nothing is read */
    s->sizes[s->rank] = s->in.sizes[d];
    s->strides[s->rank++] = s->in.strides[d];
  }
  if (s->n == 0) s->columns = 0;
  EC_TRY(ec_call_scratch(c, (size_t)s->n, sizeof *s->at, &s->at));
  EC_TRY(ec_call_scratch(c, (size_t)s->n, 1, &s->begins));
  EC_TRY(ec_order_new(c, s->n, &s->o));
  return s->n ? ec_index_offsets(c, s->rank, s->sizes, s->strides, &s->offsets) : EC_OK;
}

static void load_column(slices *s, int64_t column) {
  int64_t item = (int64_t)ec_dtype_size(ec_tensor_dtype(&s->in));
  const char *x = (const char *)s->in.data + s->offsets[column] * item;
  ec_order_load(&s->o, ec_tensor_dtype(&s->in), x, s->in.strides[s->dim] * item, false);
}

/* Orders the slices by a stable sort per column, the last column first. */
static void order_slices(slices *s) {
  for (int64_t column = s->columns; column-- > 0;) {
    load_column(s, column);
    for (int64_t i = 0; i < s->n; i++) s->o.spare[i] = s->o.e[s->at[i]];
    memcpy(s->o.e, s->o.spare, (size_t)s->n * sizeof *s->o.e);
    ec_order_sort(&s->o);
    for (int64_t i = 0; i < s->n; i++) s->at[i] = s->o.e[i].at;
  }
}

/* Marks slices that differ from the previous one. A NaN differs from everything. */
static void compare_slices(slices *s) {
  uint64_t nan;
  bool has_nan = ec_order_nan(ec_tensor_dtype(&s->in), &nan);
  for (int64_t column = 0; column < s->columns; column++) {
    load_column(s, column);
    for (int64_t i = 1; i < s->n; i++) {
      uint64_t key = s->o.e[s->at[i]].key;
      if (key != s->o.e[s->at[i - 1]].key || (has_nan && key == nan)) s->begins[i] = 1;
    }
  }
  if (s->n) s->begins[0] = 1;
  for (int64_t i = 0; i < s->n; i++) s->count += s->begins[i];
}

/* Writes the first of each group of equal slices. */
static ec_status write_values(ec_call *c, const slices *s, const ec_tensor *out) {
  int64_t *to, *from, g = 0;
  ec_table t = {.dtype = ec_tensor_dtype(out), .n = s->count};
  if (out->numel == 0) return EC_OK;
  EC_TRY(ec_index_offsets(c, 1, &s->count, &out->strides[s->dim], &to));
  EC_TRY(ec_call_scratch(c, (size_t)s->count, sizeof *from, &from));
  for (int64_t i = 0; i < s->n; i++)
    if (s->begins[i]) from[g++] = s->at[i] * s->in.strides[s->dim];
  t.to = to;
  t.from = from;
  for (size_t d = 0, i = 0; d < s->in.rank; d++)
    if (d != s->dim) ec_table_dim(&t, s->sizes[i], out->strides[d], s->strides[i]), i++;
  ec_table_run(c, &t, out->data, s->in.data, EC_TABLE_DISTINCT);
  return EC_OK;
}

/* Writes the group of each slice and the sizes of groups, if requested. Positions of the flattened
 * input become row-major ones of an output of any layout. */
static ec_status write_groups(ec_call *c, const slices *s, ec_tensor *inverse, ec_tensor *counts) {
  int64_t *group, g = -1, none = 0;
  EC_TRY(ec_call_scratch(c, (size_t)s->n, sizeof *group, &group));
  for (int64_t i = 0; i < s->n; i++) group[s->at[i]] = g += s->begins[i];
  ec_view from = ec_view_of(inverse), to = from;
  uint8_t row_major[EC_MAX_RANK];
  for (size_t d = 0; d < from.rank; d++) row_major[d] = (uint8_t)d;
  ec_strides(from.sizes, row_major, from.rank, from.strides);
  from.data = (char *)group;
  if (inverse->numel) ec_copy_view(c, &to, &from);
  if (counts->numel) ec_fill_tensor(c, counts, &none);
  int64_t *count = counts->data;
  g = -1;
  for (int64_t i = 0; counts->numel && i < s->n; i++) count[g += s->begins[i]]++;
  return EC_OK;
}

static ec_status write_outputs(ec_call *c, slices *s, size_t out, bool inverse, bool counts) {
  const ec_tensor self = *ec_arg_tensor(c, 0);
  int64_t sizes[EC_MAX_RANK], none = 0;
  bool own = s->in.data == self.data;
  EC_TRY(ec_call_check_dtype(c, out, EC_BIT(self.dtype)));
  EC_TRY(ec_call_check_dtype(c, out + 1, EC_BIT(EC_INT64)));
  EC_TRY(ec_call_check_dtype(c, out + 2, EC_BIT(EC_INT64)));
  memcpy(sizes, s->in.sizes, sizeof sizes);
  sizes[s->dim] = s->count;
  EC_TRY(ec_call_resize(c, out, s->in.rank, sizes));
  if (!inverse) EC_TRY(ec_call_resize(c, out + 1, 1, &none));
  else if (s->flat) EC_TRY(ec_call_resize(c, out + 1, self.rank, self.sizes));
  else EC_TRY(ec_call_resize(c, out + 1, 1, &s->n));
  EC_TRY(ec_call_resize(c, out + 2, 1, counts ? &s->count : &none));
  if (own) s->in.data = ec_arg_tensor(c, 0)->data; /* an unbound output may also be the input */
  EC_TRY(write_values(c, s, ec_arg_tensor(c, out)));
  return write_groups(c, s, ec_arg_tensor(c, out + 1), ec_arg_tensor(c, out + 2));
}

typedef struct wanted {
  bool inverse, counts;
} wanted;

static ec_status run_unique(ec_call *c, const int64_t *dim, bool sorted, wanted w, size_t out) {
  slices s = {.rank = 0};
  EC_TRY(open_slices(c, dim, &s));
  for (int64_t i = 0; i < s.n; i++) s.at[i] = i;
  if (sorted) order_slices(&s);
  compare_slices(&s);
  return write_outputs(c, &s, out, w.inverse, w.counts);
}

/* The result is always sorted, as in eager. */
ec_status ec_op_unique2_out(ec_call *c) {
  return run_unique(c, NULL, true, (wanted){ec_arg_bool(c, 2), ec_arg_bool(c, 3)}, 4);
}

/* Computes both optional results for slices, whatever the flags, as in eager. */
static ec_status unique_dim(ec_call *c, size_t dim_arg, bool sorted, size_t out) {
  int64_t dim = ec_arg_int(c, dim_arg);
  return run_unique(c, &dim, sorted, (wanted){true, true}, out);
}

ec_status ec_op_unique_dim_out(ec_call *c) { return unique_dim(c, 1, true, 5); }

static bool has_room(const ec_tensor *t) {
  return t->dynamism == EC_STATIC ? t->numel > 0 : t->numel_bound > 0;
}

/* For eager, dimension 0 of a 1-d tensor means no dimension; the exporter sizes the outputs for
 * slices. If there is room for them, they are written. */
ec_status ec_op_unique_consecutive_out(ec_call *c) {
  wanted w = {ec_arg_bool(c, 1), ec_arg_bool(c, 2)};
  if (ec_arg_is_none(c, 3)) return run_unique(c, NULL, false, w, 4);
  if (ec_arg_tensor(c, 0)->rank != 1 || ec_arg_int(c, 3) != 0) return unique_dim(c, 3, false, 4);
  w.inverse |= has_room(ec_arg_tensor(c, 5));
  w.counts |= has_room(ec_arg_tensor(c, 6));
  return run_unique(c, NULL, false, w, 4);
}
