/* Moves that XNNPACK need not run: transpositions and reshapes that undo earlier ones, so that
 * readers read the earlier value (convolutions of one dimension, exported as pictures of height 1),
 * and reshapes of the delegate's arguments, which are the same bytes. */
#include "nodes/elide.h"

#include <string.h>

#include "call.h"
#include "nodes/define.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/values.h"

/* The longest chain of moves that is followed: a hostile graph must not cost its square. */
enum { MAX_CHAIN = 16 };

static bool is_move(const ecx_node *n) {
  return n->kind->define == ecx_define_transpose || n->kind->define == ecx_define_reshape ||
         n->kind->define == ecx_define_copy;
}

static bool is_elided(const ecx_graph *g, const ecx_node *n) {
  if (!is_move(n)) return false;
  const ecx_elision *out = &g->elided[n->out[0]];
  return out->same != n->out[0] || g->elided[n->in[0]].same == n->out[0] ||
         (!out->uses && !ecx_out(g, n, 0)->is_output);
}

bool ecx_is_run(const ecx_graph *g, const ecx_node *n) {
  return !n->is_dead && !n->is_joined && !is_elided(g, n);
}

/* ---- order of elements ----------------------------------------------------------------------- */

/* The wide dimensions of a value, in order. */
typedef struct axes {
  size_t count, dims[XNN_MAX_TENSOR_DIMS];
} axes;

static axes axes_of(const ecx_elision *e, const ecx_value *v) {
  axes out = {0};
  for (size_t d = 0; d < v->shape.rank; d++)
    if (e->wide >> d & 1) out.dims[out.count++] = d;
  return out;
}

/* The order of a value's axes in memory, as places among those of a later value. */
typedef struct order {
  size_t count;
  size_t at[XNN_MAX_TENSOR_DIMS];
} order;

static order order_of(const axes *a) {
  order out = {.count = a->count};
  for (size_t i = 0; i < a->count; i++) out.at[i] = i;
  return out;
}

static bool is_unchanged(const order *o) {
  for (size_t i = 0; i < o->count; i++)
    if (o->at[i] != i) return false;
  return true;
}

/* Permutes the order of a transposition's result into its input's. */
static bool undo_transpose(const ecx_node *n, const axes *in, const axes *out, order *o) {
  const ec_fb_vec perm = ec_fb_vector(n->params, ECX_Transpose_perm);
  const order after = *o;
  for (size_t i = 0; i < out->count; i++) {
    const size_t from = (size_t)ec_fb_vec_i32(perm, (uint32_t)out->dims[i]);
    size_t k = 0;
    while (k < in->count && in->dims[k] != from) k++;
    if (k == in->count) return false;
    o->at[k] = after.at[i];
  }
  return true;
}

/* Permutes the order of a move's result into its input's; false if a reshape joins or splits
 * dimensions. */
static bool undo_move(const ecx_graph *g, const ecx_elision *e, const ecx_node *n, order *o) {
  const ecx_value *from = ecx_in(g, n, 0), *to = ecx_out(g, n, 0);
  const axes in = axes_of(&e[n->in[0]], from), out = axes_of(&e[n->out[0]], to);
  if (in.count != out.count) return false;
  if (n->kind->define == ecx_define_transpose) return undo_transpose(n, &in, &out, o);
  for (size_t i = 0; i < in.count; i++)
    if (from->shape.dims[in.dims[i]] != to->shape.dims[out.dims[i]]) return false;
  return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* True if equal bytes of the values are equal numbers. */
static bool same_numbers(const ecx_value *a, const ecx_value *b) {
  if (a->dtype != b->dtype || a->scheme != b->scheme) return false;
  if (a->data.at || b->data.at || a->quantize_here || b->quantize_here) return false;
  return a->scheme == ECX_PLAIN || (a->scheme == ECX_PER_TENSOR && a->scale == b->scale &&
                                    a->zero_point == b->zero_point);
}

/* Returns the value that a move's result is again, or the result. */
static uint32_t find_earlier(const ecx_graph *g, const ecx_elision *e, const ecx_node *n) {
  const uint32_t out = n->out[0];
  const ecx_value *result = &g->values[out];
  const axes wide = axes_of(&e[out], result);
  order o = order_of(&wide);
  if (result->is_output) return out;
  for (int i = 0; i < MAX_CHAIN && is_move(n) && undo_move(g, e, n, &o); i++) {
    const ecx_value *in = ecx_in(g, n, 0);
    if (!same_numbers(in, result)) return out;
    if (is_unchanged(&o) && ecx_shapes_equal(&in->shape, &result->shape)) return e[n->in[0]].same;
    if (in->producer == ECX_NONE) return out;
    n = &g->nodes[in->producer];
  }
  return out;
}

/* ---- whole graphs ---------------------------------------------------------------------------- */

static void start(const ecx_graph *g, ecx_elision *e) {
  for (uint32_t i = 0; i < g->value_count; i++) {
    e[i] = (ecx_elision){.same = i, .stands_for = ECX_NONE, .wide = g->elided[i].wide};
    for (size_t d = 0; d < g->values[i].shape.rank; d++)
      if (g->values[i].shape.dims[d] != 1) e[i].wide |= 1u << d;
  }
}

/* Redirects readers of moves that undo earlier ones, and counts the uses of what remains. */
static void redirect_readers(const ecx_graph *g, ecx_elision *e) {
  for (uint32_t i = 0; i < g->node_count; i++) {
    const ecx_node *n = &g->nodes[i];
    if (n->is_dead) continue;
    if (is_move(n)) e[n->out[0]].same = find_earlier(g, e, n);
    if (is_move(n) && e[n->out[0]].same != n->out[0]) continue;
    for (unsigned k = 0; k < n->kind->inputs; k++)
      if (n->in[k] != ECX_NONE) e[e[n->in[k]].same].uses++;
  }
  for (uint32_t i = g->node_count; i-- > 0;) {
    const ecx_node *n = &g->nodes[i];
    if (n->is_dead || !is_move(n) || e[n->out[0]].same != n->out[0]) continue;
    if (!e[n->out[0]].uses && !ecx_out(g, n, 0)->is_output) e[e[n->in[0]].same].uses--;
  }
}

/* True if a move's result is the bytes of its input. */
static bool keeps_bytes(const ecx_graph *g, const ecx_elision *e, const ecx_node *n) {
  const axes wide = axes_of(&e[n->out[0]], ecx_out(g, n, 0));
  order o = order_of(&wide);
  return n->kind->define != ecx_define_transpose || (undo_move(g, e, n, &o) && is_unchanged(&o));
}

/* Removes a move of the same bytes from or to an argument: a result is written at once to an output
 * that no node reads, which could need its shape; an input that nothing else reads is read with the
 * shape of the result. */
static void join_argument(const ecx_graph *g, ecx_elision *e, const ecx_node *n) {
  const uint32_t in = e[n->in[0]].same, out = n->out[0];
  const ecx_value *from = &g->values[in], *to = &g->values[out];
  if (e[out].same != out || e[in].stands_for != ECX_NONE) return;
  if (!same_numbers(from, to) || !keeps_bytes(g, e, n)) return;
  if (to->is_output && !e[out].uses && !from->is_input && !from->is_output) {
    e[out].same = in;
    e[in].stands_for = out;
  } else if (!to->is_output && from->is_input && in == n->in[0] && e[in].uses == 1 &&
             e[out].uses && e[out].stands_for == ECX_NONE) {
    e[in].same = out;
    e[out].stands_for = in;
  }
}

uint32_t ecx_elide(const ecx_call *c, ecx_graph *g) {
  const size_t bytes = g->value_count * sizeof *g->elided;
  ecx_elision *e = c->host->scratch(c->call, bytes);
  if (!e) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu bytes", bytes);
  start(g, e);
  redirect_readers(g, e);
  for (uint32_t i = g->node_count; i-- > 0;)
    if (!g->nodes[i].is_dead && is_move(&g->nodes[i])) join_argument(g, e, &g->nodes[i]);
  if (memcmp(e, g->elided, bytes) != 0) g->elisions++;
  memcpy(g->elided, e, bytes);
  return EC_BACKEND_OK;
}
