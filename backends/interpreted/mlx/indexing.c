/* Slices, indices, and tensors put together. */
#include <string.h>

#include "../rows.h"
#include "special.h"

/* ---- slices ---------------------------------------------------------------------------------- */

/* The arguments of a slice. */
typedef struct slice {
  uint32_t axis;
  int64_t values[2], bounds[2]; /* of start and stop */
  bool are_literal[2];
  int64_t step;
} slice;

static uint32_t read_slice(const emx_call *c, uint32_t rank, slice *s) {
  EC_BACKEND_TRY(emx_axis(c, "axis", rank, &s->axis));
  EC_BACKEND_TRY(emx_int(c, "start", &s->values[0], &s->bounds[0], &s->are_literal[0]));
  EC_BACKEND_TRY(emx_int(c, "stop", &s->values[1], &s->bounds[1], &s->are_literal[1]));
  EC_BACKEND_TRY(emx_literal(c, "step", 1, &s->step));
  return s->step ? (uint32_t)EC_BACKEND_OK : EMX_INVALID(c, "'step' is 0");
}

/* Returns an upper bound of a slice's size, which is exact if all is known; -1: unknown. */
static int64_t slice_bound(const slice *s, const ect_tensor *x) {
  const int64_t size = x->sizes[s->axis];
  int64_t start = s->bounds[0], stop = s->bounds[1];
  const bool is_exact = !x->is_dynamic && s->are_literal[0] && s->are_literal[1];
  if (s->step < 0 || size < 0) return s->step < 0 ? -1 : size;
  if (!is_exact) { /* ends before the first of two bounds, and begins at 0 unless that is known */
    const bool from_end = s->are_literal[0] && start < 0;
    stop = stop >= 0 && stop < size ? stop : size;
    start = s->are_literal[0] && start > 0 ? start : 0;
    const int64_t count = stop > start ? stop - start : 0;
    if (from_end && -s->bounds[0] < size) return -s->bounds[0];
    return count / s->step + (count % s->step != 0);
  }
  start = start < 0 ? start + size : start;
  stop = stop < 0 ? stop + size : stop;
  start = start < 0 ? 0 : start < size ? start : size;
  stop = stop < start ? start : stop < size ? stop : size;
  return (stop - start) / s->step + ((stop - start) % s->step != 0);
}

uint32_t emx_call_slice(const emx_call *c) {
  ect_program *p = &c->g->program;
  slice s;
  int64_t x;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  EC_BACKEND_TRY(read_slice(c, t.rank, &s));
  t.sizes[s.axis] = slice_bound(&s, &t);
  t.is_dynamic |= !s.are_literal[0] || !s.are_literal[1];
  const int64_t args[] = {x, ect_add_int(p, s.axis), s.values[0], s.values[1],
                          ect_add_int(p, s.step)};
  return emx_finish(c, s.step < 0 ? "mlx::reverse_slice.out" : "aten::slice_copy.Tensor_out", args,
                    5, &t);
}

uint32_t emx_call_slice_update(const emx_call *c) {
  ect_program *p = &c->g->program;
  slice s;
  int64_t x, update;
  ect_tensor t, source;
  EC_BACKEND_TRY(emx_tensor(c, "dst", &x, &t));
  EC_BACKEND_TRY(emx_tensor(c, "update", &update, &source));
  EC_BACKEND_TRY(read_slice(c, t.rank, &s));
  if (s.step < 1) return EMX_INVALID(c, "'step' is %lld, expected at least 1", (long long)s.step);
  const int64_t args[] = {ect_convert(p, x, emx_work(t.dtype)),
                          ect_convert(p, update, emx_work(t.dtype)),
                          ect_add_int(p, s.axis),
                          s.values[0],
                          s.values[1],
                          ect_add_int(p, s.step)};
  return emx_finish(c, "aten::slice_scatter.out", args, 6, &t);
}

/* ---- indices --------------------------------------------------------------------------------- */

uint32_t emx_call_index_copy(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t x, update, indices, list[ECT_MAX_RANK];
  uint32_t axis;
  ect_tensor t, source, index;
  EC_BACKEND_TRY(emx_tensor(c, "dst", &x, &t));
  EC_BACKEND_TRY(emx_tensor(c, "update", &update, &source));
  EC_BACKEND_TRY(emx_tensor(c, "indices", &indices, &index));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  if (index.rank != 1 || index.dtype != EC_DTYPE_INT64)
    return EMX_INVALID(c, "'indices' has %u dimensions of %s, expected one of int64",
                       (unsigned)index.rank, ec_backend_dtype_name(index.dtype));
  for (uint32_t d = 0; d < axis; d++) list[d] = ECT_NO_VALUE;
  list[axis] = indices;
  const int64_t args[] = {ect_convert(p, x, emx_work(t.dtype)),
                          ect_add_list(p, ECT_OPTIONAL_TENSOR_LIST, list, axis + 1),
                          ect_convert(p, update, emx_work(t.dtype)), ect_add_bool(p, false)};
  return emx_finish(c, "aten::index_put.out", args, 4, &t);
}

/* One index drops its axis, indices put their shape in its place. */
uint32_t emx_call_take(const emx_call *c) {
  ect_program *p = &c->g->program;
  const uint32_t index = emx_find(c, "index");
  int64_t x, value;
  uint32_t axis;
  ect_tensor t, indices = {.rank = 0};
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  if (index == ECT_ABSENT) return EMX_INVALID(c, "no field 'index'");
  const bool is_tensor = c->g->operands[index].kind == ECT_TENSOR;
  if (is_tensor) EC_BACKEND_TRY(ect_use_tensor(c->g, index, &value, &indices));
  else EC_BACKEND_TRY(ect_use(c->g, index, &value));
  const uint32_t rank = t.rank - 1 + indices.rank;
  if (rank > ECT_MAX_RANK) return EMX_REFUSE(c, "more than %d dimensions", ECT_MAX_RANK);
  memmove(&t.sizes[axis + indices.rank], &t.sizes[axis + 1], (t.rank - 1 - axis) * sizeof *t.sizes);
  memcpy(&t.sizes[axis], indices.sizes, indices.rank * sizeof *t.sizes);
  t.rank = rank;
  t.is_dynamic |= indices.is_dynamic;
  const int64_t number = ect_add_int(p, axis);
  if (is_tensor) return emx_finish(c, "mlx::take.out", (int64_t[]){x, value, number}, 3, &t);
  return emx_finish(c, "aten::select_copy.int_out", (int64_t[]){x, number, value}, 3, &t);
}

/* 'x' and 'indices' broadcast, but in the axis. */
uint32_t emx_call_take_along_axis(const emx_call *c) {
  int64_t x, indices;
  uint32_t axis;
  ect_tensor t, index;
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  EC_BACKEND_TRY(emx_tensor(c, "indices", &indices, &index));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  if (index.rank != t.rank)
    return EMX_INVALID(c, "'indices' has %u dimensions, expected %u", (unsigned)index.rank,
                       (unsigned)t.rank);
  t.sizes[axis] = index.sizes[axis];
  emx_broadcast(&t, &index);
  const int64_t args[] = {x, indices, ect_add_int(&c->g->program, axis)};
  return emx_finish(c, "mlx::take_along_axis.out", args, 3, &t);
}

/* 'updates' become the dtype of 'x'; all broadcast, but 'x' in the axis. */
uint32_t emx_call_scatter_add(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t x, indices, updates;
  uint32_t axis;
  ect_tensor t, index, update;
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  EC_BACKEND_TRY(emx_tensor(c, "indices", &indices, &index));
  EC_BACKEND_TRY(emx_tensor(c, "updates", &updates, &update));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  const uint32_t rank = t.rank;
  const int64_t size = t.sizes[axis];
  emx_broadcast(&t, &index);
  emx_broadcast(&t, &update);
  while (t.rank > rank && t.sizes[0] == 1)
    memmove(t.sizes, t.sizes + 1, --t.rank * sizeof *t.sizes);
  if (index.rank != rank || t.rank != rank)
    return EMX_INVALID(c, "'indices' has %u dimensions and 'updates' %u, expected %u",
                       (unsigned)index.rank, (unsigned)update.rank, (unsigned)rank);
  t.sizes[axis] = size;
  const int64_t args[] = {x, indices, ect_convert(p, updates, t.dtype), ect_add_int(p, axis)};
  return emx_finish(c, "mlx::scatter_add.out", args, 4, &t);
}

/* Finds a list of tensors; broadcasts their types, and promotes their dtypes. */
static uint32_t read_tensors(const emx_call *c, const char *name, int64_t *values,
                             ect_tensor *types, uint32_t *count) {
  const uint32_t operand = emx_find(c, name);
  if (operand == ECT_ABSENT) return EMX_INVALID(c, "no field '%s'", name);
  const ect_operand list = c->g->operands[operand];
  if (list.kind != ECT_TENSOR_LIST || !list.count || list.count > ECT_MAX_ARGS)
    return EMX_REFUSE(c, "'%s' has %u tensors, expected 1 to %d", name, (unsigned)list.count,
                      ECT_MAX_ARGS);
  for (*count = 0; *count < list.count; ++*count)
    EC_BACKEND_TRY(ect_use_tensor(c->g, c->g->items[list.first + *count], &values[*count],
                                  &types[*count]));
  return EC_BACKEND_OK;
}

uint32_t emx_call_gather(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t x, values[ECT_MAX_ARGS], axes[ECT_MAX_RANK], slices[ECT_MAX_RANK];
  uint32_t count, axis_count, slice_count;
  ect_tensor source, types[ECT_MAX_ARGS];
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &source));
  EC_BACKEND_TRY(read_tensors(c, "indices", values, types, &count));
  EC_BACKEND_TRY(emx_literals(c, "axes", axes, &axis_count));
  EC_BACKEND_TRY(emx_literals(c, "slice_sizes", slices, &slice_count));
  if (axis_count != count || slice_count != source.rank)
    return EMX_INVALID(c, "%u indices and %u axes; %u slice sizes for %u dimensions",
                       (unsigned)count, (unsigned)axis_count, (unsigned)slice_count,
                       (unsigned)source.rank);
  ect_tensor t = emx_like(&types[0], source.dtype);
  for (uint32_t i = 1; i < count; i++) emx_broadcast(&t, &types[i]);
  if (t.rank + slice_count > ECT_MAX_RANK)
    return EMX_REFUSE(c, "more than %d dimensions", ECT_MAX_RANK);
  for (uint32_t i = 0; i < slice_count; i++) {
    if (slices[i] < 0) return EMX_INVALID(c, "'slice_sizes' has %lld", (long long)slices[i]);
    t.sizes[t.rank++] = slices[i];
  }
  const int64_t args[] = {x, ect_add_list(p, ECT_TENSOR_LIST, values, count),
                          ect_add_ints(p, axes, axis_count), ect_add_ints(p, slices, slice_count)};
  return emx_finish(c, "mlx::gather.out", args, 4, &t);
}

/* ---- several tensors ------------------------------------------------------------------------- */

/* Concatenate, or Stack, which has a new axis. */
uint32_t emx_call_concatenate(const emx_call *c) {
  ect_program *p = &c->g->program;
  const bool is_stack = ect_text_is(c->n->op, "Stack");
  int64_t values[ECT_MAX_ARGS];
  uint32_t count, axis;
  ect_tensor types[ECT_MAX_ARGS];
  EC_BACKEND_TRY(read_tensors(c, "tensors", values, types, &count));
  ect_tensor t = emx_like(&types[0], types[0].dtype);
  if (t.rank + is_stack > ECT_MAX_RANK) return EMX_REFUSE(c, "more than 16 dimensions");
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank + is_stack, &axis));
  for (uint32_t i = 1; i < count; i++) {
    if (types[i].rank != t.rank) return EMX_INVALID(c, "tensors of different ranks");
    t.dtype = emx_promote(t.dtype, types[i].dtype);
    t.is_dynamic |= types[i].is_dynamic;
    for (uint32_t d = 0; d < t.rank; d++)
      if (is_stack || d != axis)
        t.sizes[d] = t.sizes[d] < 0 || types[i].sizes[d] < 0 ? -1
                     : t.sizes[d] > types[i].sizes[d]        ? t.sizes[d]
                                                             : types[i].sizes[d];
      else if (t.sizes[d] < 0 || types[i].sizes[d] < 0 ||
               __builtin_add_overflow(t.sizes[d], types[i].sizes[d], &t.sizes[d]))
        t.sizes[d] = -1;
  }
  if (is_stack) {
    memmove(&t.sizes[axis + 1], &t.sizes[axis], (t.rank++ - axis) * sizeof *t.sizes);
    t.sizes[axis] = count;
  }
  for (uint32_t i = 0; i < count; i++) values[i] = ect_convert(p, values[i], emx_work(t.dtype));
  const int64_t args[] = {ect_add_list(p, ECT_TENSOR_LIST, values, count), ect_add_int(p, axis)};
  return emx_finish(c, is_stack ? "aten::stack.out" : "aten::cat.out", args, 2, &t);
}

/* Finds the operands of a split's results, and sets their types. */
static uint32_t read_results(const emx_call *c, const ect_tensor *x, uint32_t axis,
                             const int64_t *sizes, uint32_t size_count, int64_t *outs,
                             uint32_t *count) {
  const ect_operand list = c->g->operands[ect_outputs(c->g, c->n)[0].operand];
  ect_tensor t = emx_like(x, x->dtype);
  if (!list.count || list.count > ECT_MAX_ARGS || (size_count > 1 && size_count != list.count))
    return EMX_INVALID(c, "%u sizes for %u results", (unsigned)size_count, (unsigned)list.count);
  for (*count = 0; *count < list.count; ++*count) {
    const uint32_t operand = c->g->items[list.first + *count];
    t.sizes[axis] = -1; /* the last chunk of equal ones may be smaller */
    if (size_count > 1) t.sizes[axis] = sizes[*count];
    emx_set_type(c->g, operand, &t);
    EC_BACKEND_TRY(ect_use(c->g, operand, &outs[*count]));
  }
  return EC_BACKEND_OK;
}

/* One size is that of all chunks but the last. */
uint32_t emx_call_split(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t x, sizes, bounds[ECT_MAX_RANK], outs[ECT_MAX_ARGS];
  uint32_t size_count, axis, count = 0;
  bool is_literal;
  ect_tensor t;
  if (!c->n->output_count) return EMX_INVALID(c, "no field 'outs'");
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  EC_BACKEND_TRY(emx_ints(c, "sizes", &sizes, bounds, &size_count, &is_literal));
  if (!size_count) return EMX_INVALID(c, "no sizes");
  t.is_dynamic |= !is_literal;
  EC_BACKEND_TRY(read_results(c, &t, axis, bounds, size_count, outs, &count));
  if (p->failed) return ect_refuse(c->g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  if (size_count == 1) sizes = p->items[ect_value_at(p, sizes)->as.list.first];
  const int64_t args[] = {x, sizes, ect_add_int(p, axis)};
  const int64_t list = ect_add_list(p, ECT_TENSOR_LIST, outs, count);
  return ect_call_op(c->g,
                     size_count == 1 ? "aten::split_copy.Tensor_out"
                                     : "aten::split_with_sizes_copy.out",
                     args, 3, &list, 1, c->shown);
}
