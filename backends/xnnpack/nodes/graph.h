/* The checked graph of a payload as native structs: values and nodes with every number checked.
 * After read_graph.c, the only untrusted bytes in use are the nodes' parameters, which shapes_*.c
 * check. */
#ifndef ECX_NODES_GRAPH_H
#define ECX_NODES_GRAPH_H

#include "format/fb.h"
#include "nodes/kind.h"
#include "payload/schema.h"
#include "payload/values.h"

typedef struct ecx_elision ecx_elision; /* elide.h */

struct ecx_node {
  const ecx_kind *kind;
  ec_fb_table params;
  uint32_t index, debug_handle, flags;
  uint32_t in[ECX_MAX_INPUTS], out[ECX_MAX_OUTPUTS]; /* values; ECX_NONE: absent */
  float min, max;
  bool is_dead; /* its results are unused: XNNPACK, which may abort on it, does not get it */
  /* The end of a chain (lookup.c): its 256 results by input, and the value that it reads. */
  const uint8_t *lookup;
  uint32_t lookup_from;
  bool is_joined; /* only tables read it: runs that do not show its results are without it */
};

struct ecx_graph {
  ecx_value *values;
  ecx_node *nodes;
  ecx_elision *elided; /* by value */
  uint64_t elisions;   /* number of changes of `elided` */
  uint32_t value_count, node_count, extern_count;
  uint32_t *inputs, *outputs; /* values, by position among the arguments */
  uint32_t input_count, output_count, arg_count;
  uint8_t *lookups; /* the tables of chains */
};

/* Returns the i-th operand; NULL if it is absent. */
static inline const ecx_value *ecx_in(const ecx_graph *g, const ecx_node *n, unsigned i) {
  return n->in[i] == ECX_NONE ? NULL : &g->values[n->in[i]];
}
static inline const ecx_value *ecx_out(const ecx_graph *g, const ecx_node *n, unsigned i) {
  return &g->values[n->out[i]];
}

/* Parameters of a node: ECX_PARAM(n, Conv, groups). */
#define ECX_PARAM(n, table, field) ec_fb_u32((n)->params, ECX_##table##_##field)

void ecx_graph_close(const ec_host *host, ecx_graph *graph);

/* ecx_fail with the prefix "node 3 (Conv2d, debug handle 17): ". */
uint32_t ecx_fail_node(const ecx_call *c, const ecx_node *node, uint32_t status, const char *fmt,
                       ...) __attribute__((format(printf, 4, 5)));

#endif
