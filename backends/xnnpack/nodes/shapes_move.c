/* Shapes of nodes that compute elementwise or only move elements, and their checks. They run when a
 * delegate is created, and again whenever an input changes its shape. */
#include <string.h>

#include "call.h"
#include "core/checked.h"
#include "nodes/graph.h"
#include "nodes/shapes.h"
#include "payload/values.h"

static const char *text_of(const ecx_shape *shape, char text[ECX_TEXT / 2]) {
  return ecx_shape_text(shape, text, ECX_TEXT / 2);
}

uint32_t ecx_shape_same(const ecx_call *c, const ecx_graph *g, const ecx_node *n, ecx_shape *out) {
  (void)c;
  *out = ecx_in(g, n, 0)->shape;
  return EC_BACKEND_OK;
}

uint32_t ecx_shape_broadcast(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                             ecx_shape *out) {
  const ecx_shape *a = &ecx_in(g, n, 0)->shape, *b = &ecx_in(g, n, 1)->shape;
  char left[ECX_TEXT / 2], right[ECX_TEXT / 2];
  out->rank = a->rank > b->rank ? a->rank : b->rank;
  for (size_t d = 1; d <= out->rank; d++) {
    size_t x = d <= a->rank ? a->dims[a->rank - d] : 1;
    size_t y = d <= b->rank ? b->dims[b->rank - d] : 1;
    if (x != y && x != 1 && y != 1)
      return REFUSE(c, n, "operands of shapes %s and %s do not broadcast", text_of(a, left),
                    text_of(b, right));
    out->dims[out->rank - d] = x == 1 ? y : x;
  }
  return EC_BACKEND_OK;
}

/* Checks that num_dims, the first field of these tables, repeats the length of their vectors. */
static uint32_t check_rank(const ecx_call *c, const ecx_node *n, uint32_t rank) {
  const uint32_t stated = ec_fb_u32(n->params, 0);
  if (!stated || stated == rank) return EC_BACKEND_OK;
  return REFUSE(c, n, "num_dims %u, expected %u", (unsigned)stated, (unsigned)rank);
}

/* Reads a vector parameter with one number per dimension of the input. */
static uint32_t one_per_dim(const ecx_call *c, const ecx_graph *g, const ecx_node *n, unsigned id,
                            const char *name, ec_fb_vec *out) {
  *out = ec_fb_vector(n->params, id);
  size_t rank = ecx_in(g, n, 0)->shape.rank;
  if (out->count == rank && rank > 0) return EC_BACKEND_OK;
  return REFUSE(c, n, "%u %s for an input of %zu dimensions", (unsigned)out->count, name, rank);
}

static uint32_t item(ec_fb_vec vec, size_t i) {
  return (uint32_t)ec_fb_vec_i32(vec, (uint32_t)i);
}

uint32_t ecx_shape_transpose(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                             ecx_shape *out) {
  const ecx_shape *in = &ecx_in(g, n, 0)->shape;
  ec_fb_vec perm;
  uint32_t seen = 0;
  ECX_TRY(one_per_dim(c, g, n, ECX_Transpose_perm, "dimensions in perm", &perm));
  ECX_TRY(check_rank(c, n, perm.count));
  out->rank = in->rank;
  for (size_t d = 0; d < in->rank; d++) {
    uint32_t from = item(perm, d);
    if (from >= in->rank || seen >> from & 1)
      return REFUSE(c, n, "perm[%zu] is %u, not a permutation of %zu dimensions", d,
                    (unsigned)from, in->rank);
    seen |= 1u << from;
    out->dims[d] = in->dims[from];
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_shape_reshape(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                           ecx_shape *out) {
  const ecx_shape *in = &ecx_in(g, n, 0)->shape;
  ec_fb_vec dims = ec_fb_vector(n->params, ECX_Reshape_new_shape);
  char from[ECX_TEXT / 2], to[ECX_TEXT / 2];
  size_t count, known = 1, inferred = XNN_MAX_TENSOR_DIMS;
  bool fits = dims.count <= XNN_MAX_TENSOR_DIMS;
  out->rank = fits ? dims.count : 0;
  for (size_t d = 0; fits && d < out->rank; d++) {
    out->dims[d] = item(dims, d);
    if (out->dims[d])
      fits = ec_mul_size(known, out->dims[d], &known);
    else if (inferred != XNN_MAX_TENSOR_DIMS)
      fits = false;
    else
      inferred = d;
  }
  fits = fits && ecx_shape_count(in, &count);
  if (fits && inferred != XNN_MAX_TENSOR_DIMS) {
    out->dims[inferred] = count / known;
    fits = count % known == 0;
  } else {
    fits = fits && count == known;
  }
  if (fits) return check_rank(c, n, dims.count);
  return REFUSE(c, n, "%s does not fit into %s (%u dimensions, at most one of them 0)",
                text_of(in, from), text_of(out, to), (unsigned)dims.count);
}

/* XNNPACK interprets size 0 at the start as the whole dimension; elsewhere it has no elements. */
uint32_t ecx_shape_slice(const ecx_call *c, const ecx_graph *g, const ecx_node *n, ecx_shape *out) {
  const ecx_shape *in = &ecx_in(g, n, 0)->shape;
  ec_fb_vec offsets, sizes;
  ECX_TRY(one_per_dim(c, g, n, ECX_Slice_offsets, "offsets", &offsets));
  ECX_TRY(one_per_dim(c, g, n, ECX_Slice_sizes, "sizes", &sizes));
  ECX_TRY(check_rank(c, n, sizes.count));
  out->rank = in->rank;
  for (size_t d = 0; d < in->rank; d++) {
    size_t offset = item(offsets, d), size = item(sizes, d);
    out->dims[d] = size || offset ? size : in->dims[d];
    if (!ec_in_range(offset, out->dims[d], in->dims[d]))
      return REFUSE(c, n, "%zu elements at %zu of dimension %zu, which has %zu", size, offset, d,
                    in->dims[d]);
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_shape_pad(const ecx_call *c, const ecx_graph *g, const ecx_node *n, ecx_shape *out) {
  const ecx_shape *in = &ecx_in(g, n, 0)->shape;
  ec_fb_vec before, after;
  out->rank = in->rank;
  if (!in->rank && !ec_fb_vector(n->params, ECX_Pad_before).count &&
      !ec_fb_vector(n->params, ECX_Pad_after).count)
    return EC_BACKEND_OK; /* a copy */
  ECX_TRY(one_per_dim(c, g, n, ECX_Pad_before, "paddings before", &before));
  ECX_TRY(one_per_dim(c, g, n, ECX_Pad_after, "paddings after", &after));
  for (size_t d = 0; d < in->rank; d++)
    out->dims[d] = in->dims[d] + item(before, d) + item(after, d);
  return EC_BACKEND_OK;
}

uint32_t ecx_shape_concatenate(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                               ecx_shape *out) {
  char first[ECX_TEXT / 2], other[ECX_TEXT / 2];
  int32_t axis = (int32_t)ECX_PARAM(n, Concatenate, axis);
  *out = ecx_in(g, n, 0)->shape;
  if (axis < 0) axis += (int32_t)out->rank;
  if (axis < 0 || (size_t)axis >= out->rank)
    return REFUSE(c, n, "axis %d of %zu dimensions", (int)axis, out->rank);
  for (unsigned i = 1; i < n->kind->inputs; i++) {
    const ecx_shape *in = &ecx_in(g, n, i)->shape;
    bool fits = in->rank == out->rank;
    for (size_t d = 0; fits && d < in->rank; d++)
      if (d == (size_t)axis)
        fits = ec_add_size(out->dims[d], in->dims[d], &out->dims[d]);
      else
        fits = in->dims[d] == out->dims[d];
    if (!fits)
      return REFUSE(c, n, "input %u has shape %s, which does not continue %s along %d", i,
                    text_of(in, other), text_of(out, first), (int)axis);
  }
  return EC_BACKEND_OK;
}
