/* Shapes: views, slices, parts put together. */
#include <string.h>

#include "special.h"

/* ---- views ----------------------------------------------------------------------------------- */

/* expand_dims and squeeze where sizes are unknown: one dimension after the other. */
static uint32_t edit_dims(ecm_node *n, bool adds) {
  ect_program *p = &n->g->program;
  int64_t args[2], axes[ECT_MAX_RANK];
  ect_tensor x;
  size_t count = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_numbers(n, "axes", axes, ECT_MAX_RANK, &count));
  args[1] = ect_add_ints(p, axes, count);
  if (!adds) return ecm_finish(n, "aten::squeeze_copy.dims_out", args, 2);
  if (count != 1) return ecm_refuse(n, "several new dimensions beside unknown ones");
  args[1] = ect_add_int(p, axes[0]);
  return ecm_finish(n, "aten::unsqueeze_copy.out", args, 2);
}

/* reshape, expand_dims, squeeze: a view in the shape of the result's type. */
uint32_t ecm_call_view(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[2], sizes[ECT_MAX_RANK];
  const ect_operand *shape = NULL;
  size_t count = 0;
  const ect_tensor *t = &n->type;
  EC_BACKEND_TRY(ecm_input(n, "x", &args[0]));
  args[1] = ect_add_ints(p, t->sizes, t->rank);
  if (n->unknown) {
    EC_BACKEND_TRY(ecm_argument(n, "shape", &shape));
    if (!shape) return edit_dims(n, ect_text_is(n->node->op, "expand_dims"));
    EC_BACKEND_TRY(ecm_ints(n, "shape", sizes, ECT_MAX_RANK, &count));
    if (count != t->rank) return ecm_refuse(n, "the shape has another rank than the result");
    args[1] = ect_add_list(p, ECT_INT_LIST, sizes, count);
  }
  return ecm_finish(n, "aten::view_copy.out", args, 2);
}

/* The sizes of x, of which some are known only when the program runs. */
uint32_t ecm_call_shape(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0, parts[ECT_MAX_RANK];
  ect_tensor t;
  const ect_tensor scalar = {.dtype = EC_DTYPE_INT32};
  EC_BACKEND_TRY(ecm_typed(n, "x", &x, &t));
  for (uint32_t d = 0; d < t.rank; d++) {
    const int64_t size = ect_add_int(p, 0), args[] = {x, ect_add_int(p, d), size};
    ect_add_call(p, "aten::sym_size.int", args, 3, NULL);
    EC_BACKEND_TRY(ecm_step(n, "aten::scalar_tensor.out", &size, 1, &scalar, &parts[d]));
  }
  const int64_t args[] = {ect_add_list(p, ECT_TENSOR_LIST, parts, t.rank), ect_add_int(p, 0)};
  return ecm_finish(n, "aten::stack.out", args, 2);
}

uint32_t ecm_call_tile(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[2], reps[ECT_MAX_RANK];
  size_t count = 0;
  EC_BACKEND_TRY(ecm_input(n, "x", &args[0]));
  EC_BACKEND_TRY(ecm_ints(n, "reps", reps, ECT_MAX_RANK, &count));
  args[1] = ect_add_list(p, ECT_INT_LIST, reps, count);
  return ecm_finish(n, "aten::repeat.out", args, 2);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Numbers, which are of rank 0, make a vector. */
static uint32_t add_dimension(ecm_node *n, int64_t *id) {
  const ect_tensor *t = ect_tensor_at(&n->g->program, *id);
  if (!t || t->rank) return EC_BACKEND_OK;
  const ect_tensor one = {.dtype = t->dtype, .rank = 1, .sizes = {1}};
  const int64_t args[] = {*id, ect_add_int(&n->g->program, 0)};
  return ecm_step(n, "aten::unsqueeze_copy.out", args, 2, &one, id);
}

static uint32_t join(ecm_node *n, bool stacks) {
  ect_program *p = &n->g->program;
  int64_t parts[ECM_MAX_VALUES], axis = 0;
  size_t count = 0;
  double interleave = 0;
  EC_BACKEND_TRY(ecm_list(n, "values", parts, ECM_MAX_VALUES, &count));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, n->type.rank, &axis));
  EC_BACKEND_TRY(ecm_number(n, "interleave", 0, &interleave));
  if (interleave != 0) return ecm_refuse(n, "interleave is true");
  for (size_t i = 0; !stacks && i < count; i++) EC_BACKEND_TRY(add_dimension(n, &parts[i]));
  const int64_t args[] = {ect_add_list(p, ECT_TENSOR_LIST, parts, count), ect_add_int(p, axis)};
  return ecm_finish(n, stacks ? "aten::stack.out" : "aten::cat.out", args, 2);
}

uint32_t ecm_call_concat(ecm_node *n) { return join(n, false); }

uint32_t ecm_call_stack(ecm_node *n) { return join(n, true); }

uint32_t ecm_call_split(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[3], axis = 0, outs[ECM_MAX_VALUES], sizes[ECM_MAX_VALUES];
  ect_tensor x;
  size_t count = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, x.rank, &axis));
  EC_BACKEND_TRY(ecm_results(n, outs, &count));
  for (size_t i = 0; i < count; i++) {
    const ect_tensor *t = ect_tensor_at(p, outs[i]);
    sizes[i] = t && axis < t->rank ? t->sizes[axis] : 0;
  }
  args[1] = ect_add_ints(p, sizes, count);
  args[2] = ect_add_int(p, axis);
  const int64_t list = ect_add_list(p, ECT_TENSOR_LIST, outs, count);
  return ecm_call_op(n, "aten::split_with_sizes_copy.out", args, 3, &list, 1, true);
}

/* ---- slices ---------------------------------------------------------------------------------- */

typedef struct slices {
  ect_tensor x;
  int64_t input;
  size_t cut[ECT_MAX_RANK], count; /* dimensions that are not taken whole */
  int64_t begin[ECT_MAX_RANK], end[ECT_MAX_RANK], step[ECT_MAX_RANK]; /* values of the program */
  int64_t squeezed[ECT_MAX_RANK];
} slices;

static uint32_t read_flags(ecm_node *n, const char *name, uint32_t rank, int64_t *out) {
  size_t count = 0;
  memset(out, 0, ECT_MAX_RANK * sizeof *out);
  EC_BACKEND_TRY(ecm_numbers(n, name, out, ECT_MAX_RANK, &count));
  return count && count != rank ? ecm_refuse(n, "a mask has another rank than x")
                                : (uint32_t)EC_BACKEND_OK;
}

static uint32_t is_constant(ecm_node *n, const char *name, bool *out) {
  const ect_operand *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *out = v && v->is_constant;
  return EC_BACKEND_OK;
}

static uint32_t read_slices(ecm_node *n, slices *s) {
  ect_program *p = &n->g->program;
  int64_t begin[ECT_MAX_RANK], end[ECT_MAX_RANK], strides[ECT_MAX_RANK];
  int64_t begin_mask[ECT_MAX_RANK], end_mask[ECT_MAX_RANK];
  size_t begins = 0, ends = 0, steps = 0;
  bool known = false;
  EC_BACKEND_TRY(ecm_typed(n, "x", &s->input, &s->x));
  const uint32_t rank = s->x.rank;
  EC_BACKEND_TRY(is_constant(n, "begin", &known));
  EC_BACKEND_TRY(ecm_ints(n, "begin", begin, ECT_MAX_RANK, &begins));
  EC_BACKEND_TRY(ecm_ints(n, "end", end, ECT_MAX_RANK, &ends));
  EC_BACKEND_TRY(ecm_numbers(n, "stride", strides, ECT_MAX_RANK, &steps));
  EC_BACKEND_TRY(read_flags(n, "begin_mask", rank, begin_mask));
  EC_BACKEND_TRY(read_flags(n, "end_mask", rank, end_mask));
  EC_BACKEND_TRY(read_flags(n, "squeeze_mask", rank, s->squeezed));
  if (begins != rank || ends != rank || (steps && steps != rank))
    return ecm_refuse(n, "begin, end or stride has another rank than x");
  for (uint32_t d = rank; d-- > 0;) {
    const int64_t stride = steps ? strides[d] : 1;
    const bool starts = begin_mask[d] || (known && ect_value_at(p, begin[d])->as.i == 0);
    if (stride <= 0) return ecm_refuse(n, "a stride is not positive");
    if (starts && end_mask[d] && stride == 1 && !s->squeezed[d]) continue;
    s->begin[s->count] = begin_mask[d] ? ect_add_int(p, 0) : begin[d];
    s->end[s->count] = end_mask[d] ? ect_add_int(p, INT64_MAX) : end[d];
    s->step[s->count] = ect_add_int(p, stride);
    s->cut[s->count++] = d;
  }
  return EC_BACKEND_OK;
}

/* Returns the dimension of the result that is dimension d of x. */
static uint32_t kept_before(const slices *s, size_t d) {
  uint32_t kept = 0;
  for (size_t i = 0; i < d; i++) kept += !s->squeezed[i];
  return kept;
}

/* Cuts one dimension, of the last ones first. */
static uint32_t cut_one(ecm_node *n, slices *s, size_t i, ect_tensor *t, bool is_last) {
  ect_program *p = &n->g->program;
  const size_t d = s->cut[i];
  const int64_t args[] = {s->input, ect_add_int(p, (int64_t)d), s->begin[i], s->end[i],
                          s->step[i]};
  const char *op = s->squeezed[d] ? "aten::select_copy.int_out" : "aten::slice_copy.Tensor_out";
  const uint32_t kept = kept_before(s, d);
  if (s->squeezed[d]) {
    t->rank--;
    for (size_t k = d; k < t->rank; k++) t->sizes[k] = t->sizes[k + 1];
  } else if (kept < n->type.rank)
    t->sizes[d] = n->type.sizes[kept];
  if (is_last) return ecm_finish(n, op, args, s->squeezed[d] ? 3 : 5);
  return ecm_step(n, op, args, s->squeezed[d] ? 3 : 5, t, &s->input);
}

uint32_t ecm_call_slice(ecm_node *n) {
  slices s = {.count = 0};
  EC_BACKEND_TRY(read_slices(n, &s));
  ect_tensor t = s.x;
  if (!s.count) return ecm_finish(n, "aten::clone.out", &s.input, 1);
  for (size_t i = 0; i < s.count; i++) EC_BACKEND_TRY(cut_one(n, &s, i, &t, i + 1 == s.count));
  return EC_BACKEND_OK;
}

uint32_t ecm_call_slice_by_size(ecm_node *n) {
  ect_program *p = &n->g->program;
  slices s = {.count = 0};
  int64_t begin[ECT_MAX_RANK], size[ECT_MAX_RANK];
  size_t begins = 0, sizes = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &s.input, &s.x));
  EC_BACKEND_TRY(ecm_numbers(n, "begin", begin, ECT_MAX_RANK, &begins));
  EC_BACKEND_TRY(ecm_numbers(n, "size", size, ECT_MAX_RANK, &sizes));
  if (begins != s.x.rank || sizes != s.x.rank)
    return ecm_refuse(n, "begin or size has another rank than x");
  ect_tensor t = s.x;
  for (uint32_t d = s.x.rank; d-- > 0;) {
    s.begin[s.count] = ect_add_int(p, begin[d]);
    s.end[s.count] = ect_add_int(p, size[d] < 0 ? INT64_MAX : begin[d] + size[d]);
    s.step[s.count] = ect_add_int(p, 1);
    s.cut[s.count++] = d;
  }
  if (!s.count) return ecm_finish(n, "aten::clone.out", &s.input, 1);
  for (size_t i = 0; i < s.count; i++) EC_BACKEND_TRY(cut_one(n, &s, i, &t, i + 1 == s.count));
  return EC_BACKEND_OK;
}

/* Puts the update back through the slices of x, the innermost first. */
uint32_t ecm_call_slice_update(ecm_node *n) {
  ect_program *p = &n->g->program;
  slices s = {.count = 0};
  int64_t part[ECT_MAX_RANK + 1], update = 0;
  ect_tensor type, types[ECT_MAX_RANK + 1];
  EC_BACKEND_TRY(ecm_typed(n, "update", &update, &type));
  EC_BACKEND_TRY(read_slices(n, &s));
  if (type.rank != s.x.rank) return ecm_refuse(n, "the update has another rank than x");
  if (!s.count) return ecm_finish(n, "aten::clone.out", &update, 1);
  part[0] = s.input;
  types[0] = s.x;
  for (size_t i = 0; i + 1 < s.count; i++) {
    const int64_t args[] = {part[i], ect_add_int(p, (int64_t)s.cut[i]), s.begin[i], s.end[i],
                            s.step[i]};
    types[i + 1] = types[i];
    types[i + 1].sizes[s.cut[i]] = type.sizes[s.cut[i]];
    EC_BACKEND_TRY(
        ecm_step(n, "aten::slice_copy.Tensor_out", args, 5, &types[i + 1], &part[i + 1]));
  }
  for (size_t i = s.count; i-- > 0;) {
    const int64_t args[] = {part[i],    update,   ect_add_int(p, (int64_t)s.cut[i]),
                            s.begin[i], s.end[i], s.step[i]};
    if (i == 0) return ecm_finish(n, "aten::slice_scatter.out", args, 6);
    EC_BACKEND_TRY(ecm_step(n, "aten::slice_scatter.out", args, 6, &types[i], &update));
  }
  return EC_BACKEND_OK;
}
