/* Values and nodes of a draft, written as a FlatBuffer. Tables precede what they refer to: an
 * offset is filled in when its target is written. */
#include "delegate_at_load/draft.h"

#include <string.h>

#include "call.h"
#include "nodes/kinds.h"
#include "payload/schema.h"

/* ---- lists ----------------------------------------------------------------------------------- */

/* Makes room for one more item of `size` bytes in a list. */
static void *grow(ecx_draft *d, void *list, size_t count, size_t *room, size_t size) {
  if (count < *room) return list;
  const size_t more = *room ? 2 * *room : 64;
  char *grown = more <= SIZE_MAX / size ? d->c->host->alloc(more * size) : NULL;
  if (!grown) {
    d->failed = true;
    return list;
  }
  if (list) {
    memcpy(grown, list, count * size);
    d->c->host->free(list);
  }
  *room = more;
  return grown;
}

void *ecx_draft_alloc(ecx_draft *d, size_t size) {
  d->blocks = grow(d, d->blocks, d->block_count, &d->block_room, sizeof *d->blocks);
  void *block = d->failed ? NULL : d->c->host->alloc(size);
  if (block) d->blocks[d->block_count++] = block;
  else d->failed = true;
  return block;
}

void ecx_draft_close(const ec_host *host, ecx_draft *d) {
  for (size_t i = 0; i < d->block_count; i++) host->free(d->blocks[i]);
  if (d->blocks) host->free(d->blocks);
  if (d->values) host->free(d->values);
  if (d->nodes) host->free(d->nodes);
  if (d->data) host->free(d->data);
  *d = (ecx_draft){0};
}

/* ---- values and nodes ------------------------------------------------------------------------ */

static uint32_t add_value(ecx_draft *d, const ecx_shape *shape, uint32_t constant,
                          uint32_t external) {
  d->values = grow(d, d->values, d->value_count, &d->value_room, sizeof *d->values);
  if (d->failed || d->value_count >= ECX_MAX_ID) return ECX_NONE;
  d->values[d->value_count] = (ecx_draft_value){.shape = *shape,
                                                .coding = {.dtype = ECX_fp32},
                                                .constant = constant,
                                                .external = external,
                                                .producer = ECX_NONE,
                                                .owner = ECX_NONE,
                                                .dynamic = ECX_NONE};
  return (uint32_t)d->value_count++;
}

uint32_t ecx_draft_input(ecx_draft *d, const ecx_shape *shape, uint32_t position) {
  if (position >= d->extern_count) d->extern_count = position + 1;
  return add_value(d, shape, 0, position);
}

uint32_t ecx_draft_data(ecx_draft *d, const ecx_data *data) {
  if (!d->data_count) d->data_count = 1;
  d->data = grow(d, d->data, d->data_count, &d->data_room, sizeof *d->data);
  if (d->failed) return 0;
  d->data[d->data_count] = *data;
  return (uint32_t)d->data_count++;
}

uint32_t ecx_draft_constant(ecx_draft *d, const ecx_shape *shape, const ecx_data *data) {
  const uint32_t number = ecx_draft_data(d, data);
  return d->failed ? ECX_NONE : add_value(d, shape, number, ECX_NONE);
}

uint32_t ecx_draft_result(ecx_draft *d, const ecx_shape *shape) {
  return add_value(d, shape, 0, ECX_NONE);
}

void ecx_draft_set(ecx_draft_node *n, unsigned field, uint32_t value) {
  n->scalars |= UINT32_C(1) << field;
  n->fields[field] = value;
}

void ecx_draft_set_float(ecx_draft_node *n, unsigned field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  ecx_draft_set(n, field, bits);
}

void ecx_draft_set_vector(ecx_draft_node *n, unsigned field, const size_t *items, size_t count) {
  n->vectors[n->vector_count].field = (uint8_t)field;
  n->vectors[n->vector_count].count = (uint8_t)count;
  for (size_t i = 0; i < count; i++)
    n->vectors[n->vector_count].items[i] = (int32_t)(uint32_t)items[i];
  n->vector_count++;
}

static void set_operand(ecx_draft_node *n, unsigned field, uint32_t id) {
  ecx_draft_set(n, field, id == ECX_NONE ? XNN_INVALID_VALUE_ID : id);
}

static void set_operands(ecx_draft *d, ecx_draft_node *n, const uint32_t *in, unsigned in_count,
                         uint32_t out) {
  const ecx_layout *layout = ecx_kinds[n->kind].layout;
  for (unsigned i = 0; i < in_count; i++) {
    set_operand(n, layout->in[i], in[i]);
    if (!d->failed && in[i] != ECX_NONE) d->values[in[i]].readers++;
  }
  ecx_draft_set(n, layout->out[0], out);
  if (!d->failed) d->values[out].producer = (uint32_t)d->node_count++;
}

ecx_draft_node *ecx_draft_add(ecx_draft *d, uint8_t kind, const uint32_t *in, unsigned in_count,
                              uint32_t out) {
  const ecx_layout *layout = ecx_kinds[kind].layout;
  d->nodes = grow(d, d->nodes, d->node_count, &d->node_room, sizeof *d->nodes);
  const bool failed = d->failed || out == ECX_NONE;
  d->failed = failed;
  ecx_draft_node *n = failed ? &d->spare : &d->nodes[d->node_count];
  *n = (ecx_draft_node){.kind = kind};
  ecx_draft_set(n, layout->flags, 0);
  set_operands(d, n, in, in_count, out);
  return n;
}

ecx_draft_node *ecx_draft_add_like(ecx_draft *d, const ecx_draft_node *like, const uint32_t *in,
                                   uint32_t out) {
  const ecx_draft_node copy = *like; /* the list may move */
  const unsigned count = ecx_kinds[copy.kind].inputs;
  ecx_draft_node *n = ecx_draft_add(d, copy.kind, in, count, out);
  if (d->failed) return n;
  *n = copy;
  for (unsigned i = 0; i < count; i++) set_operand(n, ecx_kinds[copy.kind].layout->in[i], in[i]);
  ecx_draft_set(n, ecx_kinds[copy.kind].layout->out[0], out);
  return n;
}

void ecx_draft_remove_producer(ecx_draft *d, uint32_t id) {
  if (d->failed || d->values[id].producer == ECX_NONE) return;
  ecx_draft_node *n = &d->nodes[d->values[id].producer];
  n->is_replaced = true;
  d->values[id].producer = ECX_NONE;
  d->values[id].is_watched = false;
  for (unsigned i = 0; i < ecx_kinds[n->kind].inputs; i++) {
    const uint32_t in = n->fields[ecx_kinds[n->kind].layout->in[i]];
    if (in != XNN_INVALID_VALUE_ID) d->values[in].readers--;
  }
}

/* ---- the FlatBuffer -------------------------------------------------------------------------- */

typedef struct writer {
  ecx_draft *d;
  uint8_t *at;
  size_t used, room;
} writer;

static void put_bytes(writer *w, const void *bytes, size_t size) {
  while (!w->d->failed && w->room - w->used < size)
    w->at = grow(w->d, w->at, w->room, &w->room, 1);
  if (w->d->failed) return;
  memcpy(w->at + w->used, bytes, size);
  w->used += size;
}

static void put_u32(writer *w, size_t value) {
  const uint32_t narrow = (uint32_t)value;
  put_bytes(w, &narrow, sizeof narrow);
}

/* Makes the offset at `slot` point to what is written next. */
static void point_here(writer *w, size_t slot) {
  const uint32_t offset = (uint32_t)(w->used - slot);
  if (!w->d->failed) memcpy(w->at + slot, &offset, sizeof offset);
}

/* Writes a vtable and a table of fields with 4 bytes each. Field `i` is present if bit i of
 * `present` is set. Returns the position of the first one. */
static size_t put_table(writer *w, uint32_t present, size_t slot) {
  uint16_t vtable[2 + 32] = {0}, bytes = 4;
  size_t count = 0;
  for (unsigned i = 0; i < 32; i++) {
    if (!(present >> i & 1)) continue;
    vtable[2 + i] = bytes;
    bytes = (uint16_t)(bytes + 4);
    count = i + 1;
  }
  vtable[0] = (uint16_t)(4 + 2 * count);
  vtable[1] = bytes;
  put_bytes(w, vtable, vtable[0]);
  point_here(w, slot);
  put_u32(w, vtable[0]);
  return w->used;
}

static size_t put_vector(writer *w, size_t slot, size_t count) {
  point_here(w, slot);
  put_u32(w, count);
  return w->used;
}

static size_t put_offsets(writer *w, size_t slot, size_t count) {
  const size_t at = put_vector(w, slot, count);
  for (size_t i = 0; i < count; i++) put_u32(w, 0);
  return at;
}

#define BIT(field) (UINT32_C(1) << (field))

static void put_tensor(writer *w, size_t slot, uint32_t id) {
  const ecx_draft_value *v = &w->d->values[id];
  const uint32_t external = v->external == ECX_NONE ? 0
                            : v->is_output          ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT
                                                    : XNN_VALUE_FLAG_EXTERNAL_INPUT;
  const size_t at = put_table(w, BIT(ECX_Tensor_dynamic_datatype) - 1u, slot);
  put_u32(w, v->coding.dtype);
  put_u32(w, v->shape.rank);
  put_u32(w, 0);
  put_u32(w, v->constant);
  put_u32(w, v->external == ECX_NONE ? 0 : v->external);
  put_u32(w, external);
  put_u32(w, id);
  put_vector(w, at + 4 * ECX_Tensor_dims, v->shape.rank);
  for (size_t i = 0; i < v->shape.rank; i++) put_u32(w, v->shape.dims[i]);
}

/* Writes the scales of a value. */
static void put_coding(writer *w, size_t slot, const ecx_draft_value *v) {
  const ecx_coding *q = &v->coding;
  if (q->scales) {
    put_table(w, BIT(ECX_PerChannel_channel_dim) | BIT(ECX_PerChannel_scale_buffer), slot);
    put_u32(w, q->channel_dim);
    put_u32(w, q->scales);
  } else if (q->dtype == ECX_qdint8) {
    put_table(w, BIT(ECX_PerToken_nonbatch_dims), slot);
    put_u32(w, 1);
  } else {
    put_table(w, BIT(ECX_PerTensor_scale) | BIT(ECX_PerTensor_zero_point), slot);
    put_bytes(w, &q->scale, sizeof q->scale);
    put_bytes(w, &q->zero_point, sizeof q->zero_point);
  }
}

static uint32_t type_of_coding(const ecx_coding *q) {
  if (q->scales) return ECX_QUANT_PER_CHANNEL;
  return q->dtype == ECX_qdint8 ? ECX_QUANT_PER_TOKEN : ECX_QUANT_PER_TENSOR;
}

static void put_value(writer *w, size_t slot, uint32_t id) {
  const ecx_draft_value *v = &w->d->values[id];
  const bool is_plain = v->coding.dtype == ECX_fp32;
  size_t at = put_table(w, BIT(ECX_Value_value_type) | BIT(ECX_Value_value), slot);
  put_u32(w, is_plain ? ECX_VALUE_PLAIN : ECX_VALUE_QUANTIZED);
  put_u32(w, 0);
  if (!is_plain) {
    at = put_table(w, BIT(ECX_QuantizedTensor_tensor) | BIT(ECX_QuantizedTensor_quantization_type) |
                          BIT(ECX_QuantizedTensor_quantization), at + 4);
    put_u32(w, 0);
    put_u32(w, type_of_coding(&v->coding));
    put_u32(w, 0);
    put_coding(w, at + 8, v);
  }
  put_tensor(w, is_plain ? at + 4 : at, id);
}

/* Writes the parameters of a node: numbers, then offsets of vectors. */
static void put_parameters(writer *w, size_t slot, const ecx_draft_node *n) {
  uint32_t present = n->scalars;
  size_t slots[ECX_MOST_VECTORS] = {0};
  for (unsigned v = 0; v < n->vector_count; v++) present |= BIT(n->vectors[v].field);
  put_table(w, present, slot);
  for (unsigned i = 0; i < ECX_MOST_FIELDS; i++) {
    for (unsigned v = 0; v < n->vector_count; v++)
      if (n->vectors[v].field == i) slots[v] = w->used;
    if (present >> i & 1) put_u32(w, n->scalars >> i & 1 ? n->fields[i] : 0);
  }
  for (unsigned v = 0; v < n->vector_count; v++) {
    put_vector(w, slots[v], n->vectors[v].count);
    put_bytes(w, n->vectors[v].items, n->vectors[v].count * sizeof(int32_t));
  }
}

static void put_node(writer *w, size_t slot, const ecx_draft_node *n) {
  uint32_t present = BIT(ECX_Node_node_type) | BIT(ECX_Node_node);
  if (n->has_bounds) present |= BIT(ECX_Node_min_max);
  const size_t at = put_table(w, present, slot);
  put_u32(w, n->kind);
  put_u32(w, 0);
  if (n->has_bounds) put_u32(w, 0);
  put_parameters(w, at + 4, n);
  if (!n->has_bounds) return;
  put_table(w, BIT(ECX_MinMax_min) | BIT(ECX_MinMax_max), at + 8);
  put_bytes(w, &n->min, sizeof n->min);
  put_bytes(w, &n->max, sizeof n->max);
}

static void put_graph(writer *w) {
  const ecx_draft *d = w->d;
  put_u32(w, 0);
  put_bytes(w, "XN01", 4);
  const size_t at = put_table(w, BIT(ECX_Graph_nodes) | BIT(ECX_Graph_values) |
                                     BIT(ECX_Graph_num_externs), 0);
  put_u32(w, 0);
  put_u32(w, 0);
  put_u32(w, d->extern_count);
  size_t nodes = 0;
  for (size_t i = 0; i < d->node_count; i++) nodes += !d->nodes[i].is_replaced;
  size_t slots = put_offsets(w, at, nodes);
  for (size_t i = 0; i < d->node_count; i++) {
    if (d->nodes[i].is_replaced) continue;
    put_node(w, slots, &d->nodes[i]);
    slots += 4;
  }
  slots = put_offsets(w, at + 4, d->value_count);
  for (size_t i = 0; i < d->value_count; i++) put_value(w, slots + 4 * i, (uint32_t)i);
}

uint32_t ecx_draft_write(ecx_draft *d, void **bytes, ecx_payload *out) {
  writer w = {.d = d};
  *bytes = NULL;
  if (!d->failed) put_graph(&w);
  *bytes = w.at;
  if (d->failed || w.used > INT32_MAX)
    return ecx_fail(d->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a graph of %zu nodes",
                    d->node_count);
  ECX_TRY(ecx_payload_open(d->c, w.at, w.used, out));
  out->given = d->data;
  out->given_count = (uint32_t)d->data_count;
  return EC_BACKEND_OK;
}
