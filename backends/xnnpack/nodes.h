/* The table of node kinds, made from nodes.def: what a node's operands are, what they must be, what
 * shapes result, and how XNNPACK is told. */
#ifndef ECX_NODES_H
#define ECX_NODES_H

#include "graph.h"

enum { ECX_KINDS = 48 };

/* Which datatypes a node's operands may have. */
typedef enum ecx_types {
  ECX_FLOAT,         /* fp32 or fp16, one for all; bf16 counts as fp32 */
  ECX_FLOAT_OR_8BIT, /* the same, or qint8, quint8 */
  ECX_MOVE,          /* the same, or int32, which is only moved */
  ECX_WEIGHTS,       /* the combinations of input, filter, bias and output of weights.def */
  ECX_MATMUL,        /* fp32, fp16, or qdint8 with qcint8 weights */
  ECX_CONVERSION,    /* from and to float, qint8, quint8; from float to qdint8 */
  ECX_ARGMAX         /* fp32, and int32 indices */
} ecx_types;

/* Fields of a node's table that are operands. */
typedef struct ecx_layout {
  uint8_t in[ECX_MAX_INPUTS], out[ECX_MAX_OUTPUTS];
  uint8_t outputs, flags;
  uint8_t optional; /* bit i: input i may be absent */
} ecx_layout;

/* A subgraph that is being made. */
typedef struct ecx_builder {
  const ecx_call *c;
  const ecx_graph *graph;
  xnn_subgraph_t subgraph;
  uint32_t *ids; /* XNNPACK's ids of values */
} ecx_builder;

typedef uint32_t ecx_shape_fn(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                              ecx_shape *out);
typedef uint32_t ecx_define_fn(ecx_builder *b, const ecx_node *n);

struct ecx_kind {
  const char *name; /* NULL: unknown */
  const ecx_layout *layout;
  uint8_t inputs;
  uint8_t types;  /* an ecx_types */
  uint32_t flags; /* that it may have */
  ecx_shape_fn *shape;
  ecx_define_fn *define;
  int argument;
};

extern const ecx_kind ecx_kinds[ECX_KINDS];

#define ECX_NODE(number, name, table, layout, inputs, types, flags, shape, define, argument)       \
  ecx_shape_fn ecx_shape_##shape;                                                                  \
  ecx_define_fn ecx_define_##define;
#include "nodes.def"
#undef ECX_NODE

/* payload.c: the table of its parameters. */
const ec_fb_schema *ecx_node_schema(const ecx_kind *kind);

/* types.c: whether the node's operands have datatypes that it takes. */
uint32_t ecx_check_types(const ecx_call *c, const ecx_graph *g, const ecx_node *n);

/* The exporter calls indices of a pooling fp32: makes them, and what moves them, int32. */
void ecx_mark_indices(ecx_graph *g, const ecx_node *n);

/* shapes_window.c: true where the paddings of a MaxPooling2d become a separate node. XNNPACK's
 * pooling pads nothing: it takes an element inside the image in place of one outside, which is an
 * address after the image where no element under the window is inside. */
bool ecx_pads_apart(const ecx_node *n);

/* shapes_matrix.c: a node reads the parameters of a dynamically quantised value (any other is
 * fine) as parameters over its last `nonbatch_dims` dimensions. */
uint32_t ecx_check_per_token(const ecx_call *c, const ecx_node *n, const ecx_value *v,
                             uint32_t nonbatch_dims);

/* work.c: whether its nodes are so small, on the whole, that one thread is done before a second one
 * has begun. */
bool ecx_graph_is_small(const ecx_graph *g);

/* The i-th operand; NULL where it is absent. */
static inline const ecx_value *ecx_in(const ecx_graph *g, const ecx_node *n, unsigned i) {
  return n->in[i] == ECX_NONE ? NULL : &g->values[n->in[i]];
}
static inline const ecx_value *ecx_out(const ecx_graph *g, const ecx_node *n, unsigned i) {
  return &g->values[n->out[i]];
}

/* XNNPACK's ids of operands. */
static inline uint32_t ecx_in_id(const ecx_builder *b, const ecx_node *n, unsigned i) {
  return n->in[i] == ECX_NONE ? XNN_INVALID_VALUE_ID : b->ids[n->in[i]];
}
static inline uint32_t ecx_out_id(const ecx_builder *b, const ecx_node *n, unsigned i) {
  return b->ids[n->out[i]];
}

/* Parameters of a node: ECX_PARAM(n, Conv, groups). */
#define ECX_PARAM(n, table, field) ec_fb_u32((n)->params, ECX_##table##_##field)

/* The sentence of a failed XNNPACK call `what`, with the shapes of the node's operands. */
uint32_t ecx_node_status(const ecx_builder *b, const ecx_node *n, const char *what,
                         enum xnn_status status);
#define DONE(b, n, what, call) ecx_node_status((b), (n), (what), (call))
const char *ecx_status_name(enum xnn_status status);
/* Status code of the interface for one of XNNPACK. */
uint32_t ecx_status_code(enum xnn_status status);

#endif
