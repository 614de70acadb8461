/* A graph under construction: values and nodes as the payload of a run has them. It is written as
 * an ordinary payload, so that its checks, shapes and caches are those of any delegate. */
#ifndef ECX_DELEGATE_AT_LOAD_DRAFT_H
#define ECX_DELEGATE_AT_LOAD_DRAFT_H

#include "nodes/kinds.h"
#include "payload/payload.h"
#include "payload/values.h"

enum { ECX_MAX_FIELDS = 20, ECX_MAX_VECTORS = 2 };

typedef struct ecx_draft_node {
  uint8_t kind;
  uint32_t scalars; /* bit i: field i is set */
  uint32_t fields[ECX_MAX_FIELDS];
  struct {
    uint8_t field, count;
    int32_t items[XNN_MAX_TENSOR_DIMS];
  } vectors[ECX_MAX_VECTORS];
  uint8_t vector_count;
  bool has_bounds;
  bool is_replaced; /* by another node: not written */
  float min, max;
} ecx_draft_node;

/* The dtype, scales and zero point of a value. */
typedef struct ecx_coding {
  ecx_dtype dtype; /* fp32, qint8, qcint8, qcint32, qdint8 */
  float scale;     /* of qint8 */
  int32_t zero_point;
  uint32_t scales; /* of qcint8 and qcint32: in `data`; their channels: */
  uint32_t channel_dim;
} ecx_coding;

/* A value; float32 at first. Its shape matters for constants and inputs; others are inferred. */
typedef struct ecx_draft_value {
  ecx_shape shape;
  ecx_coding coding;
  uint32_t constant; /* in `data`, 0: none */
  uint32_t external; /* position among the arguments, or ECX_NONE */
  uint32_t producer; /* node; ECX_NONE: an input or a constant */
  uint32_t readers;  /* nodes so far */
  uint32_t owner;    /* value of the run that it is a form of; ECX_NONE: none */
  uint32_t dynamic;  /* the same, quantised dynamically; ECX_NONE: not needed so far */
  bool is_shared;    /* a form of several values of the run */
  bool is_output;
  bool is_watched; /* a call is declined if it is not finite */
} ecx_draft_value;

typedef struct ecx_draft {
  const ecx_call *c;
  ecx_draft_value *values;
  ecx_draft_node *nodes;
  ecx_data *data; /* constants; [0] is unused */
  void **blocks;  /* memory of copies and texts, until ecx_draft_close */
  size_t value_count, value_room, node_count, node_room, data_count, data_room, block_count,
      block_room;
  ecx_draft_node spare; /* written by nodes that have failed */
  uint32_t extern_count;
  uint32_t watched_from; /* externals from here on are watched values, not arguments; 0: none */
  bool failed; /* memory ran out: functions below do nothing */
} ecx_draft;

void ecx_draft_close(const ec_host *host, ecx_draft *d);

/* These return the number of a value; ECX_NONE on failure. */
uint32_t ecx_draft_input(ecx_draft *d, const ecx_shape *shape, uint32_t position);
uint32_t ecx_draft_constant(ecx_draft *d, const ecx_shape *shape, const ecx_data *data);
uint32_t ecx_draft_result(ecx_draft *d, const ecx_shape *shape);

/* Adds a node with these operands (ECX_NONE: absent). On failure it is one that is never used. */
ecx_draft_node *ecx_draft_add(ecx_draft *d, uint8_t kind, const uint32_t *in, unsigned in_count,
                              uint32_t out);
/* Adds a node like another one, with other operands. */
ecx_draft_node *ecx_draft_add_like(ecx_draft *d, const ecx_draft_node *like, const uint32_t *in,
                                   uint32_t out);
/* Removes the node that computes a value. */
void ecx_draft_remove_producer(ecx_draft *d, uint32_t id);
/* Returns the number of constant data that values may have as their scales; 0 on failure. */
uint32_t ecx_draft_data(ecx_draft *d, const ecx_data *data);
void ecx_draft_set(ecx_draft_node *n, unsigned field, uint32_t value);
void ecx_draft_set_float(ecx_draft_node *n, unsigned field, float value);
void ecx_draft_set_vector(ecx_draft_node *n, unsigned field, const size_t *items, size_t count);

/* Memory that lives as long as the draft; NULL on failure. */
void *ecx_draft_alloc(ecx_draft *d, size_t size);

/* Writes the payload. `*bytes` belongs to the caller. */
uint32_t ecx_draft_write(ecx_draft *d, void **bytes, ecx_payload *out);

#endif
