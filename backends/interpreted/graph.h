/* The graph of a payload, whatever its format: operands, nodes, blocks. A reader fills it from
 * verified bytes; `describe` and translation are the same for all formats. Operands, nodes and
 * blocks refer to each other by number; names and elements are bytes of the payload. */
#ifndef ECT_GRAPH_H
#define ECT_GRAPH_H

#include "names.h"
#include "note.h"
#include "values.h"

/* No operand, group, block or node. */
#define ECT_ABSENT UINT32_MAX
/* The kind of an operand that is a block. */
#define ECT_BLOCK 64

/* Blocks inside each other, and loops: the stack and the memory plan's work are bounded. */
enum { ECT_MAX_DEPTH = 64, ECT_MAX_LOOPS = 256, ECT_WHAT_BYTES = 200 };

/* A value of the payload. Readers leave `id` ECT_NO_VALUE: `ect_operand_new`. */
typedef struct ect_operand {
  ect_text name;
  uint8_t kind;     /* an ect_kind, or ECT_BLOCK: number `first` */
  bool is_defined;  /* an input, a constant, or the result of a node that has been translated */
  bool is_state;    /* its elements are initial ones */
  bool is_dynamic;  /* `sizes` are upper bounds */
  bool is_constant; /* its elements are known, or computed at load */
  uint32_t status;  /* of `fault` */
  const char *fault; /* why no call can have it; NULL: calls can */
  int64_t id;       /* in the program; ECT_NO_VALUE: not translated yet */
  uint64_t bits;    /* of a number */

  /* A tensor. */
  uint32_t dtype;         /* the payload's number */
  int32_t scalar_type;    /* -1: the runtime has none */
  int32_t border_type;    /* as an argument of the delegate */
  const char *dtype_name; /* in descriptions; NULL: the scalar type's */
  uint32_t stored_bits;   /* of an element in the payload; 0: of the scalar type */
  uint32_t rank;
  uint32_t unknown;       /* sizes that the payload does not state */
  uint32_t varying;       /* bits of dimensions whose sizes may vary, of formats that know them */
  int64_t sizes[ECT_MAX_RANK];
  uint32_t group;         /* of constants */

  /* Elements of a constant, a text, or items of a list of numbers, `width` bytes each. */
  const uint8_t *data;
  size_t data_size;
  uint32_t width;
  uint32_t first, count; /* of a list of operands: in ect_graph.items */
  const void *source;    /* the payload's own record, for its format */
} ect_operand;

/* Elements that constants share. */
typedef struct ect_group {
  const char *key; /* of named data; NULL: `data` */
  const void *data; /* NULL without a key: zeros */
  size_t size;
  bool is_external; /* the program only names `data` by its key */
  int64_t number; /* in the program; ECT_NO_VALUE: not used yet */
} ect_group;

/* An argument of a node: its name, if the format has them. */
typedef struct ect_link {
  ect_text name;
  uint32_t operand;
} ect_link;

typedef struct ect_node {
  ect_text op, name;   /* of messages; name: also of descriptions, if `is_named` */
  const char *shown;   /* the operator in traces and descriptions; NULL: in none */
  uint32_t number;     /* among those of the payload; the debug handle */
  uint32_t kind;       /* the format's number of the operator */
  uint32_t first, input_count, output_count, attribute_count; /* in ect_graph.links */
  uint32_t next;       /* of the block */
  bool is_named;
  const void *source;
} ect_node;

typedef struct ect_block {
  ect_text name;
  bool is_used; /* it is the graph's, or a node has it */
  uint32_t first_node, last_node;
  uint32_t first_input, input_count, first_output, output_count; /* in ect_graph.links */
} ect_block;

typedef struct ect_graph ect_graph;

/* A format of payloads: what it does differently. */
typedef struct ect_format {
  /* Verifies a payload, and fills an empty graph. */
  uint32_t (*read)(ect_graph *g, const ec_backend_init *what);
  uint32_t (*translate)(ect_graph *g, const ect_node *n); /* adds the calls of a node */
  void (*name)(const ect_graph *g, const ect_node *n, char *out, size_t size); /* for messages */
  /* Appends to the description of a tensor; NULL: nothing. */
  void (*note)(const ect_graph *g, const ect_operand *o, ect_note *note);
  bool has_exact_data;      /* named data of another size than a constant's elements is an error */
  bool infers_types;        /* those of what nodes compute, by translation alone */
  const char *lost_data;    /* why named data may be missing; or NULL */
  const char *lost_outputs; /* why a program may pass fewer outputs than the payload has; or NULL */
} ect_format;

struct ect_graph {
  ec_backend_call c;
  ect_program program;
  const ect_format *format;
  ect_text method; /* of a package, in names of nodes */
  ect_operand *operands;
  ect_group *groups;
  ect_link *links;
  ect_node *nodes;
  ect_block *blocks; /* the first one is the graph's */
  uint32_t *items;
  size_t operand_count, group_count, link_count, node_count, block_count, item_count;
  size_t operand_room, group_room, link_room, node_room, block_room, item_room;
  uint32_t depth, loop_count; /* of the block under translation; so far */
  char what[ECT_WHAT_BYTES];  /* the node under translation, for messages */
};

/* Frees all but the program. */
void ect_graph_close(ect_graph *g);

/* ---- for readers ----------------------------------------------------------------------------- */

/* Returns an operand; a tensor is not defined yet. */
ect_operand ect_operand_new(uint8_t kind);
/* Returns a number: ECT_INT, ECT_BOOL or ECT_DOUBLE. */
ect_operand ect_number_new(uint8_t kind, uint64_t bits);
ect_operand ect_text_new(ect_text text);
/* Returns a list of numbers of `width` bytes each. */
ect_operand ect_list_new(uint8_t kind, const uint8_t *data, size_t count, uint32_t width);
/* A fault that is reported when a call has the operand; the first one counts. */
void ect_set_fault(ect_graph *g, ect_operand *o, uint32_t status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* These append, and fail without memory. */
uint32_t ect_add_operand(ect_graph *g, const ect_operand *operand, uint32_t *out);
uint32_t ect_add_group(ect_graph *g, const ect_group *group, uint32_t *out);
uint32_t ect_add_link(ect_graph *g, ect_text name, uint32_t operand);
uint32_t ect_add_item(ect_graph *g, uint32_t operand);
uint32_t ect_add_block(ect_graph *g, const ect_block *block, uint32_t *out);
uint32_t ect_add_node(ect_graph *g, uint32_t block, const ect_node *node);

static inline const ect_link *ect_inputs(const ect_graph *g, const ect_node *n) {
  return g->links + n->first;
}
static inline const ect_link *ect_outputs(const ect_graph *g, const ect_node *n) {
  return ect_inputs(g, n) + n->input_count;
}
static inline const ect_link *ect_attributes(const ect_graph *g, const ect_node *n) {
  return ect_outputs(g, n) + n->output_count;
}
/* Returns how many numbers an operand has: of a list, or one. */
static inline size_t ect_number_count(const ect_operand *o) {
  return o->width ? o->data_size / o->width : 1;
}
/* Returns item `i` of an operand's numbers, with the sign of its width; 0 beyond their end. */
int64_t ect_number_at(const ect_operand *o, size_t i);
/* Reads an element of at most eight bytes. */
double ect_decode(int32_t scalar_type, const uint8_t *bytes);
/* Returns element `i` of a constant tensor with the width of its scalar type. */
static inline double ect_element_at(const ect_operand *o, size_t i) {
  return ect_decode(o->scalar_type, o->data + i * ec_backend_dtype_size(o->scalar_type));
}
/* Returns how many elements a constant has: bounded by its bytes. */
size_t ect_element_count(const ect_operand *o);
/* Decodes a stream of elements of `stored_bits` each, the lowest first, to the scalar type. */
void ect_unpack(const ect_operand *o, uint8_t *to, size_t count);
/* Returns the type of a tensor in the program. */
ect_tensor ect_type_of(const ect_operand *o);
/* Computes the bytes of a tensor's elements in the payload. Returns false if they overflow. */
bool ect_stored_bytes(const ect_operand *o, size_t *bytes);

/* ---- translation ----------------------------------------------------------------------------- */

/* Fails with the node under translation, and a sentence. */
#define ect_refuse(g, status, ...) ect_refuse_as(g, status, ": " __VA_ARGS__)
/* The same, for sentences that go on: " has 3 inputs". */
uint32_t ect_refuse_as(ect_graph *g, uint32_t status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes how messages name an operand: "tensor 'x'", "value 3". */
const char *ect_operand_name(const ect_graph *g, uint32_t operand, char out[ECT_NOTE_BYTES]);

/* Finds the value of the program that is an operand, translated at its first use. */
uint32_t ect_use(ect_graph *g, uint32_t operand, int64_t *out);
/* The same for an operand that has to be a tensor. */
uint32_t ect_use_tensor(ect_graph *g, uint32_t operand, int64_t *out, ect_tensor *tensor);

#endif
