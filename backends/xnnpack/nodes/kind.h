/* A kind of node, a row of nodes.def: operands, datatypes, shapes, and its definition in
 * XNNPACK. */
#ifndef ECX_NODES_KIND_H
#define ECX_NODES_KIND_H

#include "call.h"
#include "payload/schema.h"
#include "payload/values.h"

typedef struct ecx_graph ecx_graph;
typedef struct ecx_node ecx_node;
typedef struct ecx_builder ecx_builder; /* define.h */

/* Datatypes of a node's operands. */
typedef enum ecx_types {
  ECX_FLOAT,         /* fp32 or fp16, one for all; bf16 counts as fp32 */
  ECX_FLOAT_OR_8BIT, /* the same, or qint8, quint8 */
  ECX_MOVE,          /* the same, or int32, which is only moved */
  ECX_WEIGHTS,       /* the combinations of input, filter, bias and output of weights.def */
  ECX_MATMUL,        /* fp32, fp16, or qdint8 with qcint8 weights */
  ECX_CONVERSION,    /* from and to float, qint8, quint8; from float to qdint8 */
  ECX_ARGMAX         /* fp32, and int32 indices */
} ecx_types;

/* Bits of weights.def. */
enum { ECX_BIT_0 = 0, ECX_BIT_FC = 1, ECX_BIT_CONV = 2, ECX_BIT_DW = 4, ECX_BIT_DECONV = 8 };

/* The product that a node computes. XNNPACK packs its constant factor. */
typedef enum ecx_product { ECX_PRODUCT_NONE, ECX_PRODUCT_FILTER, ECX_PRODUCT_MATRIX } ecx_product;

/* Empty values that a node accepts. XNNPACK broadcasts 1 and 0 to 1, and leaves the mean of no
 * elements undefined. It concatenates empty values, and passes empty rows through. */
typedef enum ecx_empty {
  ECX_EMPTY_SAME, /* if all values have the same shape */
  ECX_EMPTY_ROWS, /* if its first result is empty */
  ECX_EMPTY_ANY
} ecx_empty;

/* A clamp is fused into the previous node if that has bounds. */
typedef enum ecx_fusion {
  ECX_FUSION_ALONE,
  ECX_FUSION_CLAMPED, /* takes the bounds of a clamp after it */
  ECX_FUSION_CLAMP    /* is a clamp, and takes the bounds of another */
} ecx_fusion;

/* Fields of a node's table that are operands. */
typedef struct ecx_layout {
  uint8_t in[ECX_MAX_INPUTS], out[ECX_MAX_OUTPUTS];
  uint8_t outputs, flags;
  uint8_t optional; /* bit i: input i may be absent */
} ecx_layout;

typedef uint32_t ecx_shape_fn(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                              ecx_shape *out);
typedef uint32_t ecx_define_fn(ecx_builder *b, const ecx_node *n);

typedef struct ecx_kind {
  const char *name; /* NULL: unknown */
  uint8_t number;   /* type byte in the payload */
  uint8_t table;    /* of its parameters: an ECX_TABLE_ of schema.h */
  uint8_t inputs;
  uint8_t types;    /* an ecx_types */
  uint8_t weights;  /* a bit of weights.def, or 0 */
  uint8_t product;  /* an ecx_product */
  uint8_t empty;    /* an ecx_empty */
  uint8_t fusion;   /* an ecx_fusion */
  const ecx_layout *layout;
  uint32_t flags; /* permitted flags */
  ecx_shape_fn *shape;
  ecx_define_fn *define;
  int argument;
} ecx_kind;

#endif
