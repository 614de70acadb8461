/* Shapes of a whole graph for the current shapes of its inputs. */
#include "nodes/infer.h"

#include "call.h"
#include "nodes/elide.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/values.h"

uint32_t ecx_graph_infer(const ecx_call *c, ecx_graph *g) {
  for (uint32_t i = 0; i < g->node_count; i++) {
    const ecx_node *n = &g->nodes[i];
    ecx_shape shape = {0};
    size_t bytes;
    ECX_TRY(n->kind->shape(c, g, n, &shape));
    for (unsigned o = 0; o < n->kind->layout->outputs; o++) {
      ecx_value *v = &g->values[n->out[o]];
      v->shape = shape;
      if (ecx_value_bytes(v, &bytes) && bytes <= ECX_MAX_VALUE_BYTES) continue;
      char text[ECX_TEXT];
      return ecx_fail_node(c, n, EC_BACKEND_INVALID_ARGUMENT, "a result of shape %s is too large",
                           ecx_shape_text(&shape, text, sizeof text));
    }
  }
  return ecx_elide(c, g);
}

static bool is_empty(const ecx_value *v) {
  size_t count;
  return ecx_shape_count(&v->shape, &count) && count == 0;
}

/* True if XNNPACK can run the node with its empty values. */
static bool accepts_empty(const ecx_graph *g, const ecx_node *n) {
  bool none = true, same = true;
  for (unsigned i = 0; i < n->kind->inputs; i++) {
    const ecx_value *v = ecx_in(g, n, i), *first = ecx_in(g, n, 0);
    if (!v) continue;
    none = none && !is_empty(v);
    same = same && ecx_shapes_equal(&v->shape, &first->shape);
  }
  if (none || n->kind->empty == ECX_EMPTY_ANY) return true;
  return is_empty(ecx_out(g, n, 0)) && (same || n->kind->empty == ECX_EMPTY_ROWS);
}

uint32_t ecx_graph_check_empty(const ecx_call *c, const ecx_graph *g) {
  for (uint32_t i = 0; i < g->node_count; i++)
    if (!g->nodes[i].is_dead && !accepts_empty(g, &g->nodes[i]))
      return ecx_fail_node(c, &g->nodes[i], EC_BACKEND_NOT_SUPPORTED,
                           "one of its inputs is empty, while the delegate has outputs that are "
                           "not");
  return EC_BACKEND_OK;
}
