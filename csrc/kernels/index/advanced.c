/* NumPy-style indexing: index.Tensor, index_put and index_put_. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/index/index.h"
#include "kernels/pointwise/elementwise.h"

/* The selection of a list of indices. */
typedef struct picks {
  ec_tensor self;                  /* before outputs were resized */
  ec_tensor *index[EC_MAX_RANK];   /* by dimension: int64 scratch, or NULL */
  size_t dims;                     /* dimensions consumed by the list */
  size_t shape_rank;               /* of all indices broadcast together */
  int64_t shape[EC_MAX_RANK];
  size_t front;                    /* position of the shape among the kept dimensions */
  size_t rank;                     /* of the result */
  int64_t sizes[EC_MAX_RANK];
} picks;

static ec_status new_index(ec_call *c, picks *p, size_t rank, const int64_t *sizes, int64_t *data) {
  ec_tensor *t;
  if (p->dims >= p->self.rank)
    return ec_call_fail(c, 1, "more indices than the tensor's %u dimensions",
                        (unsigned)p->self.rank);
  EC_TRY(ec_call_scratch(c, 1, sizeof *t, &t));
  EC_TRY(ec_tensor_init(t, EC_INT64, rank, sizes, NULL, c->err));
  t->data = data;
  p->index[p->dims++] = t;
  return ec_call_broadcast(c, 1, t, &p->shape_rank, p->shape);
}

/* Adds a mask as positions of its ones. A mask covers as many dimensions as it has. */
static ec_status add_mask(ec_call *c, picks *p, const ec_tensor *mask) {
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  const int64_t *sizes = p->self.sizes + p->dims;
  size_t rank = mask->rank;
  int64_t count, *at[EC_MAX_RANK], position[EC_MAX_RANK] = {0}, n = 0;
  uint8_t *bytes;
  bool fits = rank <= p->self.rank - p->dims;
  if (rank == 0) return EC_OK; /* no dimension: eager PyTorch ignores its value */
  if (!fits || memcmp(sizes, mask->sizes, rank * sizeof *sizes) != 0)
    return ec_call_fail(c, 1, "a mask of shape %s at dimension %zu of a tensor of shape %s",
                        ec_shape_text(mask->sizes, rank, actual, sizeof actual), p->dims,
                        ec_shape_text(p->self.sizes, p->self.rank, expected, sizeof expected));
  int64_t shape[EC_MAX_RANK], numel = mask->numel;
  memcpy(shape, sizes, rank * sizeof *shape);
  EC_TRY(ec_index_mask(c, mask, rank, shape, &bytes, &count));
  for (size_t d = 0; d < rank; d++) {
    EC_TRY(ec_call_scratch(c, (size_t)count, sizeof *at[d], &at[d]));
    EC_TRY(new_index(c, p, 1, &count, at[d]));
  }
  for (int64_t i = 0; i < numel; i++) {
    for (size_t d = 0; bytes[i] && d < rank; d++) at[d][n] = position[d];
    n += bytes[i];
    for (size_t d = rank; d-- > 0;) {
      if (++position[d] < shape[d]) break;
      position[d] = 0;
    }
  }
  return EC_OK;
}

static ec_status read_list(ec_call *c, picks *p) {
  ec_tensors list = ec_arg_tensors(c, 1);
  if (list.n > p->self.rank)
    return ec_call_fail(c, 1, "%zu indices, more than the tensor's %u dimensions", list.n,
                        (unsigned)p->self.rank);
  for (size_t i = 0; i < list.n; i++) {
    const ec_tensor *t = ec_list_tensor(list, i);
    int64_t *data;
    if (p->dims >= p->self.rank)
      return ec_call_fail(c, 1, "more indices than the tensor's %u dimensions",
                          (unsigned)p->self.rank);
    if (!t) {
      p->dims++;
    } else if (ec_tensor_dtype(t) == EC_BOOL || ec_tensor_dtype(t) == EC_UINT8) {
      EC_TRY(add_mask(c, p, t));
    } else {
      EC_TRY(ec_index_read(c, 1, t, p->dims, p->self.sizes[p->dims], true, &data));
      EC_TRY(new_index(c, p, t->rank, t->sizes, data));
    }
  }
  for (size_t d = 0; d < p->dims; d++)
    if (p->index[d]) return EC_OK;
  return ec_call_fail(c, 1, "empty, or only None and 0-d masks, expected an index");
}

/* Computes the result's sizes. The broadcast shape replaces the indexed dimensions: in place if
 * they are adjacent, in front of all others if not. */
static ec_status result_sizes(ec_call *c, picks *p) {
  size_t first = SIZE_MAX, last = 0, indexed = 0, kept = 0;
  for (size_t d = 0; d < p->self.rank; d++) {
    if (!p->index[d]) continue;
    if (first == SIZE_MAX) first = d;
    last = d;
    indexed++;
  }
  p->front = indexed && last - first + 1 == indexed ? first : 0;
  p->rank = p->self.rank - indexed + p->shape_rank;
  if (p->rank > EC_MAX_RANK)
    return ec_call_fail(c, 1, "a result of %zu dimensions, at most %d are supported", p->rank,
                        EC_MAX_RANK);
  for (size_t d = 0; d < p->self.rank; d++) {
    if (p->index[d]) continue;
    p->sizes[kept < p->front ? kept : kept + p->shape_rank] = p->self.sizes[d];
    kept++;
  }
  memcpy(p->sizes + p->front, p->shape, p->shape_rank * sizeof *p->shape);
  return EC_OK;
}

/* Computes offsets into the indexed tensor for the whole broadcast shape. */
static ec_status indexed_offsets(ec_call *c, const picks *p, const int64_t *strides,
                                 int64_t **offsets, int64_t *n) {
  ec_tensor all;
  EC_TRY(ec_tensor_init(&all, EC_INT64, p->shape_rank, p->shape, NULL, c->err));
  EC_TRY(ec_call_scratch(c, (size_t)all.numel, sizeof **offsets, offsets));
  all.data = *offsets;
  *n = all.numel;
  for (size_t d = 0; d < p->self.rank; d++) {
    ec_iter it;
    if (!p->index[d]) continue;
    ec_iter_init(&it, p->shape_rank, p->shape);
    ec_iter_tensor(&it, &all);
    ec_iter_tensor(&it, p->index[d]);
    for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it)) {
      int64_t *to = (int64_t *)(void *)it.at[0];
      for (int64_t i = 0; i < it.count; i++)
        to[i] += *(const int64_t *)(const void *)(it.at[1] + i * it.step[1]) * strides[d];
    }
  }
  return EC_OK;
}

/* The two sides of a copy: the indexed tensor (strides by its dimensions) and the other one
 * (strides by the result's dimensions). */
typedef struct sides {
  const int64_t *indexed_strides, *other_strides;
  char *indexed, *other;
} sides;

static ec_status run_table(ec_call *c, const picks *p, sides s, bool put, bool add) {
  int64_t *indexed, *other;
  size_t kept = 0;
  ec_table t = {.dtype = ec_tensor_dtype(&p->self)};
  EC_TRY(indexed_offsets(c, p, s.indexed_strides, &indexed, &t.n));
  EC_TRY(ec_index_offsets(c, p->shape_rank, p->shape, s.other_strides + p->front, &other));
  t.to = put ? indexed : other;
  t.from = put ? other : indexed;
  for (size_t d = 0; d < p->self.rank; d++) {
    if (p->index[d]) continue;
    int64_t a = s.indexed_strides[d];
    int64_t b = s.other_strides[kept < p->front ? kept : kept + p->shape_rank];
    ec_table_dim(&t, p->self.sizes[d], put ? a : b, put ? b : a);
    kept++;
  }
  ec_table_how how = add ? EC_TABLE_ADD : put ? EC_TABLE_MOVE : EC_TABLE_DISTINCT;
  ec_table_run(c, &t, put ? s.indexed : s.other, put ? s.other : s.indexed, how);
  return EC_OK;
}

ec_status ec_op_index_Tensor_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 2);
  picks p = {.self = *self};
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self->dtype)));
  EC_TRY(read_list(c, &p));
  EC_TRY(result_sizes(c, &p));
  EC_TRY(ec_call_resize(c, 2, p.rank, p.sizes));
  sides s = {p.self.strides, out->strides, self->data, out->data};
  return run_table(c, &p, s, false, false);
}

/* Returns the mask if it is the only index and eager fills instead of indexing: a single number is
 * put, without accumulation. */
static const ec_tensor *filling_mask(const ec_call *c) {
  const ec_tensors list = ec_arg_tensors(c, 1);
  const ec_tensor *mask = NULL;
  if (ec_arg_bool(c, 3) || ec_arg_tensor(c, 2)->numel != 1) return NULL;
  for (size_t i = 0; i < list.n; i++) {
    const ec_tensor *t = ec_list_tensor(list, i);
    if (t && (mask || ec_tensor_dtype(t) != EC_BOOL)) return NULL;
    if (t) mask = t;
  }
  return mask;
}

/* Reads argument 2, one number of any dtype, as an element of `dtype`. It must fit. */
static ec_status read_number(ec_call *c, ec_dtype dtype, void *element) {
  const ec_tensor *t = ec_arg_tensor(c, 2);
  const ec_dtype from = ec_tensor_dtype(t);
  ec_value number = {.kind = ec_is_floating(from) ? EC_KIND_DOUBLE : EC_KIND_INT};
  ec_value *args[4] = {NULL, NULL, &number, NULL};
  ec_call inner = *c;
  inner.record = NULL;
  inner.args = args;
  ec_cast(dtype, from)(1, element, 0, t->data, 0);
  if (from == dtype || from == EC_BOOL || ec_is_complex(dtype)) return EC_OK;
  if (ec_is_complex(from)) return ec_call_check_same_dtype(c, 2, 0);
  ec_cast(number.kind == EC_KIND_INT ? EC_INT64 : EC_FLOAT64, from)(1, (char *)&number.as, 0,
                                                                    t->data, 0);
  return ec_call_check_scalar(&inner, 2, dtype);
}

/* Writes argument 2, broadcast, to the indexed elements of `target`. */
static ec_status put_values(ec_call *c, picks *p, const ec_tensor *target) {
  const ec_tensor *values = ec_arg_tensor(c, 2);
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  int64_t strides[EC_MAX_RANK] = {0};
  if (!ec_broadcasts_to(values->rank, values->sizes, p->rank, p->sizes))
    return ec_call_fail(c, 2, "shape %s does not broadcast to the indexed part's shape %s",
                        ec_shape_text(values->sizes, values->rank, actual, sizeof actual),
                        ec_shape_text(p->sizes, p->rank, expected, sizeof expected));
  for (size_t d = 0, added = p->rank - values->rank; d < values->rank; d++)
    strides[d + added] = values->sizes[d] == 1 ? 0 : values->strides[d];
  sides s = {target->strides, strides, target->data, values->data};
  return run_table(c, p, s, true, ec_arg_bool(c, 3));
}

/* The source of a put: argument 2, or one number with a mask. */
typedef struct putting {
  picks p;
  const ec_tensor *mask;
  bool all; /* value of a mask without dimensions */
  _Alignas(16) char element[16];
} putting;

static ec_status read_put(ec_call *c, putting *s) {
  s->mask = filling_mask(c);
  if (s->mask) EC_TRY(read_number(c, ec_tensor_dtype(&s->p.self), s->element));
  else EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(s->p.self.dtype)));
  if (s->mask && s->mask->rank == 0) {
    s->all = *(const uint8_t *)s->mask->data != 0;
    return EC_OK;
  }
  EC_TRY(read_list(c, &s->p));
  return result_sizes(c, &s->p);
}

static ec_status put_into(ec_call *c, putting *s, ec_tensor *target) {
  static const int64_t still[EC_MAX_RANK];
  if (!s->mask) return put_values(c, &s->p, target);
  if (s->mask->rank == 0) {
    if (s->all) ec_fill_tensor(c, target, s->element);
    return EC_OK;
  }
  sides ends = {target->strides, still, target->data, s->element};
  return run_table(c, &s->p, ends, true, false);
}

ec_status ec_op_index_put_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 4);
  putting s = {.p.self = *self};
  EC_TRY(ec_call_check_dtype(c, 4, EC_BIT(self->dtype)));
  EC_TRY(read_put(c, &s));
  EC_TRY(ec_call_resize(c, 4, s.p.self.rank, s.p.self.sizes));
  ec_copy_cast(c, out, self);
  return put_into(c, &s, out);
}

ec_status ec_op_index_put_(ec_call *c) {
  putting s = {.p.self = *ec_arg_tensor(c, 0)};
  EC_TRY(read_put(c, &s));
  return put_into(c, &s, &s.p.self);
}
