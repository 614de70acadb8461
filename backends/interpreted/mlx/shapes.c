/* Nodes that give elements another shape. */
#include <string.h>

#include "special.h"

static uint32_t check_rank(const emx_call *c, uint32_t rank) {
  return rank <= ECT_MAX_RANK ? (uint32_t)EC_BACKEND_OK
                              : EMX_REFUSE(c, "more than %d dimensions", ECT_MAX_RANK);
}

uint32_t emx_call_expand_dims(const emx_call *c) {
  int64_t args[2];
  uint32_t axis;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(check_rank(c, ++t.rank));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  memmove(&t.sizes[axis + 1], &t.sizes[axis], (t.rank - 1 - axis) * sizeof *t.sizes);
  t.sizes[axis] = 1;
  args[1] = ect_add_int(&c->g->program, axis);
  return emx_finish(c, "aten::unsqueeze_copy.out", args, 2, &t);
}

/* Dimensions of the list that have another size than 1 stay. Where the size is not known, it is
 * taken to be 1: the rank has to be known here. */
uint32_t emx_call_squeeze(const emx_call *c) {
  int64_t args[2], dims[ECT_MAX_RANK], squeezed[ECT_MAX_RANK];
  bool is_squeezed[ECT_MAX_RANK] = {false};
  uint32_t count, rank = 0, squeezed_count = 0;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_literals(c, "dims", dims, &count));
  for (uint32_t i = 0; i < count; i++) {
    const int64_t d = dims[i] < 0 ? dims[i] + (int64_t)t.rank : dims[i];
    if (d >= 0 && d < (int64_t)t.rank) is_squeezed[d] = t.sizes[d] == 1 || t.sizes[d] < 0;
  }
  for (uint32_t d = 0; d < t.rank; d++) {
    if (!count) is_squeezed[d] = t.sizes[d] == 1;
    if (is_squeezed[d]) squeezed[squeezed_count++] = d;
    else t.sizes[rank++] = t.sizes[d];
  }
  t.rank = rank;
  args[1] = ect_add_ints(&c->g->program, squeezed, squeezed_count);
  return emx_finish(c, squeezed_count ? "aten::squeeze_copy.dims_out" : "aten::clone.out", args,
                    squeezed_count ? 2 : 1, &t);
}

/* Returns the size that a shape has in the place of -1; -1: unknown. */
static int64_t inferred_size(const ect_tensor *x, const int64_t *sizes, uint32_t count) {
  int64_t all = 1, others = 1;
  for (uint32_t d = 0; d < x->rank; d++)
    if (x->sizes[d] < 0 || __builtin_mul_overflow(all, x->sizes[d], &all)) return -1;
  for (uint32_t d = 0; d < count; d++)
    if (sizes[d] >= 0 && __builtin_mul_overflow(others, sizes[d], &others)) return -1;
  return others ? all / others : 0;
}

uint32_t emx_call_reshape(const emx_call *c) {
  int64_t args[2], sizes[ECT_MAX_RANK];
  uint32_t count, unknown = 0;
  bool is_literal;
  ect_tensor x;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(emx_ints(c, "shape", &args[1], sizes, &count, &is_literal));
  ect_tensor t = {.dtype = x.dtype, .rank = count, .is_dynamic = x.is_dynamic || !is_literal};
  for (uint32_t d = 0; d < count; d++) {
    t.sizes[d] = is_literal && sizes[d] == -1 ? inferred_size(&x, sizes, count) : sizes[d];
    unknown += is_literal && sizes[d] == -1;
    if (is_literal && sizes[d] < -1) return EMX_INVALID(c, "'shape' has %lld", (long long)sizes[d]);
  }
  if (unknown > 1) return EMX_INVALID(c, "'shape' has -1 twice");
  return emx_finish(c, "aten::view_copy.out", args, 2, &t);
}

uint32_t emx_call_broadcast_to(const emx_call *c) {
  int64_t args[2], sizes[ECT_MAX_RANK];
  uint32_t count;
  bool is_literal;
  ect_tensor x;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(emx_ints(c, "shape", &args[1], sizes, &count, &is_literal));
  ect_tensor t = {.dtype = x.dtype, .rank = count, .is_dynamic = x.is_dynamic || !is_literal};
  if (count < x.rank)
    return EMX_INVALID(c, "'shape' has %u items for %u dimensions", (unsigned)count,
                       (unsigned)x.rank);
  for (uint32_t d = 0; d < count; d++) {
    const bool is_kept = sizes[d] < 0 && is_literal && d + x.rank >= count;
    t.sizes[d] = is_kept ? x.sizes[d + x.rank - count] : sizes[d];
  }
  return emx_finish(c, "aten::expand_copy.out", args, 2, &t);
}

/* Repetitions of missing leading dimensions are 1. */
uint32_t emx_call_tile(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t args[2], reps[ECT_MAX_RANK], items[ECT_MAX_RANK], list;
  uint32_t count;
  bool is_literal;
  ect_tensor x;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(emx_ints(c, "reps", &list, reps, &count, &is_literal));
  const uint32_t rank = count > x.rank ? count : x.rank;
  ect_tensor t = {.dtype = x.dtype, .rank = rank, .is_dynamic = x.is_dynamic || !is_literal};
  for (uint32_t d = 0; d < rank; d++) {
    const bool is_given = d + count >= rank;
    const int64_t size = d + x.rank < rank ? 1 : x.sizes[d + x.rank - rank];
    const int64_t rep = is_given ? reps[d + count - rank] : 1;
    if (size < 0 || rep < 0 || __builtin_mul_overflow(size, rep, &t.sizes[d])) t.sizes[d] = -1;
    items[d] = is_given && !p->failed
                   ? p->items[ect_value_at(p, list)->as.list.first + d + count - rank]
                   : ect_add_int(p, 1);
  }
  args[1] = ect_add_list(p, ECT_INT_LIST, items, rank);
  return emx_finish(c, "aten::repeat.out", args, 2, &t);
}

uint32_t emx_call_transpose(const emx_call *c) {
  int64_t args[2], perm[ECT_MAX_RANK];
  bool is_used[ECT_MAX_RANK] = {false};
  uint32_t count;
  ect_tensor x;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(emx_literals(c, "perm", perm, &count));
  ect_tensor t = emx_like(&x, x.dtype);
  bool is_order = count == x.rank;
  for (uint32_t d = 0; is_order && d < count; d++) {
    const int64_t from = perm[d] < 0 ? perm[d] + (int64_t)x.rank : perm[d];
    is_order = from >= 0 && from < (int64_t)x.rank && !is_used[from];
    if (!is_order) break;
    is_used[from] = true;
    t.sizes[d] = x.sizes[from];
  }
  if (!is_order) return EMX_INVALID(c, "'perm' is no order of %u dimensions", (unsigned)x.rank);
  args[1] = ect_add_ints(&c->g->program, perm, count);
  return emx_finish(c, "aten::permute_copy.out", args, 2, &t);
}

uint32_t emx_call_as_strided(const emx_call *c) {
  int64_t args[4], strides[ECT_MAX_RANK], offset;
  uint32_t count;
  bool sizes_are_literal, strides_are_literal;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_ints(c, "shape", &args[1], t.sizes, &t.rank, &sizes_are_literal));
  EC_BACKEND_TRY(emx_ints(c, "strides", &args[2], strides, &count, &strides_are_literal));
  EC_BACKEND_TRY(emx_literal(c, "offset", 0, &offset));
  t.is_dynamic |= !sizes_are_literal;
  args[3] = ect_add_int(&c->g->program, offset);
  return emx_finish(c, "aten::as_strided_copy.out", args, 4, &t);
}

/* Pads of the payload are pairs from the first dimension on, torch's from the last. */
uint32_t emx_call_pad(const emx_call *c) {
  ect_program *p = &c->g->program;
  const uint32_t mode = emx_find(c, "mode");
  int64_t args[3], pads[2 * ECT_MAX_RANK], items[2 * ECT_MAX_RANK], list;
  uint32_t count;
  bool is_literal;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_ints(c, "pad_width", &list, pads, &count, &is_literal));
  if (count != 2 * t.rank)
    return EMX_INVALID(c, "'pad_width' has %u items for %u dimensions", (unsigned)count,
                       (unsigned)t.rank);
  for (uint32_t d = 0; d < t.rank; d++) {
    const bool is_known = t.sizes[d] >= 0 && is_literal;
    t.sizes[d] = is_known ? t.sizes[d] + pads[2 * d] + pads[2 * d + 1] : -1;
    for (uint32_t k = 0; k < 2 && !p->failed; k++)
      items[2 * (t.rank - 1 - d) + k] =
          p->items[ect_value_at(p, list)->as.list.first + 2 * d + k];
  }
  const ect_operand *name = mode == ECT_ABSENT ? NULL : &c->g->operands[mode];
  const ect_text text = name ? (ect_text){name->data, name->data_size} : (ect_text){0};
  args[1] = list;
  if (ect_text_is(text, "edge")) return emx_finish(c, "mlx::pad_edge.out", args, 2, &t);
  if (!ect_text_is(text, "constant"))
    return EMX_REFUSE(c, "mode '%.*s', expected 'constant' or 'edge'", ECT_CLIP(text, 40));
  args[1] = ect_add_list(p, ECT_INT_LIST, items, count);
  args[2] = ect_add_double(p, emx_double(c, "constant_value", 0));
  return emx_finish(c, "aten::constant_pad_nd.out", args, 3, &t);
}

uint32_t emx_call_repeat(const emx_call *c) {
  int64_t args[3], repeats;
  uint32_t axis;
  bool is_literal;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  EC_BACKEND_TRY(emx_int(c, "repeats", &args[1], &repeats, &is_literal));
  args[2] = ect_add_int(&c->g->program, axis);
  t.is_dynamic |= !is_literal;
  if (repeats < 0 || t.sizes[axis] < 0 ||
      __builtin_mul_overflow(t.sizes[axis], repeats, &t.sizes[axis]))
    t.sizes[axis] = -1;
  return emx_finish(c, "mlx::repeat.out", args, 3, &t);
}
