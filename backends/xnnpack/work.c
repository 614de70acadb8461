/* How much a delegate computes: whether threads are worth waking for it. */
#include "nodes.h"

/* Multiplications that one thread does in the time that it takes to give another one a part of a
 * node and to wait for it, some microseconds; and what an element costs that is only moved. */
enum { WORTH_A_THREAD = 200000, ELEMENT = 8 };

static double count(const ecx_value *v) {
  double n = 1;
  for (size_t d = 0; d < v->shape.rank; d++) n *= (double)v->shape.dims[d];
  return n;
}

/* Each element of a result is a row or window of the filter times as much of the input. */
static double node_work(const ecx_graph *g, const ecx_node *n) {
  const ecx_value *out = ecx_out(g, n, 0), *in = ecx_in(g, n, 0);
  double results = count(out), channels = 1;
  if (out->shape.rank) channels = (double)out->shape.dims[out->shape.rank - 1];
  if (n->kind->types == ECX_WEIGHTS && channels > 0)
    return results * count(ecx_in(g, n, 1)) / channels;
  if (n->kind->types == ECX_MATMUL) return results * (double)in->shape.dims[in->shape.rank - 1];
  return results * ELEMENT;
}

bool ecx_graph_is_small(const ecx_graph *g) {
  double work = 0, nodes = 0;
  for (uint32_t i = 0; i < g->node_count; i++) {
    if (g->nodes[i].is_dead) continue;
    work += node_work(g, &g->nodes[i]);
    nodes++;
  }
  return work < WORTH_A_THREAD * nodes;
}
