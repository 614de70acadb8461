/* The amount of computation of a delegate, to decide whether waking threads pays. */
#include "run/cost.h"

#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/values.h"

/* Multiplications of one thread in the time of passing a part of a node to another thread and
 * waiting for it, some microseconds; those of a node that pays for several such nodes; and the cost
 * of moving an element. */
enum { WORTH_A_THREAD = 200000, WORTH_SOME = 4 * WORTH_A_THREAD, ELEMENT = 8 };

static double count_elements(const ecx_value *v) {
  double n = 1;
  for (size_t d = 0; d < v->shape.rank; d++) n *= (double)v->shape.dims[d];
  return n;
}

/* Returns the multiplications of a node: each element of a result needs a row or window of the
 * filter. */
static double node_cost(const ecx_graph *g, const ecx_node *n) {
  const ecx_value *out = ecx_out(g, n, 0), *in = ecx_in(g, n, 0);
  double results = count_elements(out), channels = 1;
  if (out->shape.rank) channels = (double)out->shape.dims[out->shape.rank - 1];
  if (n->kind->product == ECX_PRODUCT_FILTER && channels > 0)
    return results * count_elements(ecx_in(g, n, 1)) / channels;
  if (n->kind->product == ECX_PRODUCT_MATRIX)
    return results * (double)in->shape.dims[in->shape.rank - 1];
  return results * ELEMENT;
}

/* True for a product that the runtime computes as fast from recorded panels (csrc/kernels/linalg):
 * one or two rows, whose weights stay in a cache. */
static bool is_recorded(const ecx_graph *g, const ecx_node *n) {
  enum { ROWS = 2, WEIGHTS = 1 << 16 };
  if (n->kind->product != ECX_PRODUCT_FILTER || ecx_in(g, n, 1)->shape.rank != 2) return false;
  const double weights = count_elements(ecx_in(g, n, 1));
  return weights <= WEIGHTS && node_cost(g, n) <= ROWS * weights;
}

double ecx_graph_gain(const ecx_graph *g) {
  double cost = 0;
  for (uint32_t i = 0; i < g->node_count; i++)
    if (!g->nodes[i].is_dead && !is_recorded(g, &g->nodes[i])) cost += node_cost(g, &g->nodes[i]);
  return cost;
}

bool ecx_graph_is_small(const ecx_graph *g) {
  double cost = 0, nodes = 0;
  for (uint32_t i = 0; i < g->node_count; i++) {
    if (g->nodes[i].is_dead || g->nodes[i].is_joined) continue;
    const double node = node_cost(g, &g->nodes[i]);
    if (node >= WORTH_SOME) return false;
    cost += node;
    nodes++;
  }
  return cost < WORTH_A_THREAD * nodes;
}
