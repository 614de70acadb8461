/* A TOSA graph, whatever its payload's format: values, and nodes of blocks. Values and nodes refer
 * to each other by number; names and bytes are the payload's. */
#ifndef ETS_GRAPH_H
#define ETS_GRAPH_H

#include "../values.h"

/* DType of the schema. */
typedef enum ets_dtype {
#define ETS_DTYPE(number, name, text, scalar_type, bits) ETS_##name = (number),
#include "dtypes.def"
#undef ETS_DTYPE
  ETS_DTYPES = 19
} ets_dtype;

/* Numbers of operators. */
enum {
#define ETS_OP(number, name, ...) ETS_##name = (number),
#include "operators.def"
  ETS_OPERATORS = 97
};

enum { ETS_ATTRIBUTES = 5, ETS_NAME_BYTES = 64 /* of a name in messages */ };
/* Blocks inside each other, and loops: the stack and the memory plan's work are bounded. */
enum { ETS_MOST_NESTED = 64, ETS_MOST_LOOPS = 256 };
enum { ETS_NAN_IGNORED = 2 }; /* a nan_mode; others propagate NaN */

typedef struct ets_value {
  const char *name; /* NUL-terminated; NULL: none */
  uint32_t dtype;   /* an ets_dtype */
  uint32_t rank;    /* of ETS_SHAPE: how many numbers `sizes` has */
  int64_t sizes[ECT_MAX_RANK];
  const uint8_t *data; /* elements of a constant; NULL: none */
  size_t data_size;
  bool is_defined;     /* an input, a constant, or the result of a translated node */
  int64_t id;          /* in the program; ECT_NO_VALUE: not translated yet */
} ets_value;

/* An attribute: numbers, or the bytes of a text, with the sign of their width. */
typedef struct ets_attribute {
  const uint8_t *bytes;
  uint32_t count;
  uint8_t width;
} ets_attribute;

typedef struct ets_node {
  uint32_t op; /* number of a row of operators.def */
  uint32_t number; /* among the operators of the payload */
  uint32_t first, input_count, output_count; /* in ets_graph.operands */
  ets_attribute attributes[ETS_ATTRIBUTES];
} ets_node;

typedef struct ets_block {
  const char *name;
  uint32_t first_node, node_count;
  bool is_used; /* it is the graph's, or a node has it */
  uint32_t first, input_count, output_count; /* in ets_graph.operands */
} ets_block;

typedef struct ets_graph {
  ec_backend_call c;
  ect_program program;
  ets_value *values;
  ets_node *nodes;
  ets_block *blocks; /* the first one is the graph's */
  uint32_t *operands;
  size_t value_count, node_count, block_count, operand_count;
  size_t value_room, node_room, block_room, operand_room;
  uint32_t depth, loop_count; /* of the block under translation; so far */
} ets_graph;

void ets_graph_close(void *graph);

/* These append, and fail without memory. */
uint32_t ets_add_value(ets_graph *g, const ets_value *value, uint32_t *out);
uint32_t ets_add_node(ets_graph *g, const ets_node *node);
uint32_t ets_add_block(ets_graph *g, const ets_block *block);
uint32_t ets_add_operand(ets_graph *g, uint32_t value);

static inline const uint32_t *ets_inputs(const ets_graph *g, const ets_node *n) {
  return g->operands + n->first;
}
static inline const uint32_t *ets_outputs(const ets_graph *g, const ets_node *n) {
  return g->operands + n->first + n->input_count;
}
/* Returns an item of an attribute; 0 beyond its end. */
int64_t ets_attribute_at(const ets_node *n, size_t attribute, size_t index);

const char *ets_dtype_name(uint32_t dtype);
/* The c10::ScalarType of a dtype; -1: none. */
int32_t ets_scalar_type(uint32_t dtype);
/* Reads an element, which is not int4 or int48; 0 of an unknown dtype. */
double ets_read_number(uint32_t dtype, const uint8_t *bytes);
/* Computes the bytes of a constant's elements in the payload. Returns false if they overflow. */
bool ets_stored_bytes(const ets_value *v, size_t *bytes);

#endif
