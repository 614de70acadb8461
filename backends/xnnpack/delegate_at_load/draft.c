/* Values and nodes of a draft, written as a FlatBuffer. */
#include "delegate_at_load/draft.h"

#include <string.h>

#include "call.h"
#include "core/half.h"
#include "format/fb_write.h"
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
  ecx_draft_set(n, field, ec_float_bits(value));
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

/* A field; narrower ones have 4 bytes, too. */
#define FIELD(table, name, number) {ECX_##table##_##name, 4, number, 0}
#define COUNT(fields) (sizeof(fields) / sizeof *(fields))

typedef struct writer {
  const ecx_draft *d;
  ec_fb_writer fb;
} writer;

/* Writes a table and points the offset at `slot` to it. */
static void put_table(writer *w, size_t slot, ec_fb_slot *fields, size_t count) {
  ec_fb_link(&w->fb, slot, ec_fb_put_table(&w->fb, fields, count));
}

/* The same of a vector of 4-byte items. Returns the position of the first one. */
static size_t put_vector(writer *w, size_t slot, const void *items, size_t count) {
  const size_t at = ec_fb_put_vector(&w->fb, items, count, 4);
  ec_fb_link(&w->fb, slot, at);
  return at + 4;
}

static void put_tensor(writer *w, size_t slot, uint32_t id) {
  const ecx_draft_value *v = &w->d->values[id];
  const uint32_t external = v->external == ECX_NONE ? 0
                            : v->is_output          ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT
                                                    : XNN_VALUE_FLAG_EXTERNAL_INPUT;
  ec_fb_slot fields[] = {FIELD(Tensor, dims, 0),
                         FIELD(Tensor, datatype, v->coding.dtype),
                         FIELD(Tensor, num_dims, v->shape.rank),
                         FIELD(Tensor, buffer, v->constant),
                         FIELD(Tensor, external_id, external ? v->external : 0),
                         FIELD(Tensor, flags, external),
                         FIELD(Tensor, id, id)};
  uint32_t dims[XNN_MAX_TENSOR_DIMS];
  for (size_t i = 0; i < v->shape.rank; i++) dims[i] = (uint32_t)v->shape.dims[i];
  put_table(w, slot, fields, COUNT(fields));
  put_vector(w, fields[0].at, dims, v->shape.rank);
}

/* Writes the scales of a value. */
static void put_coding(writer *w, size_t slot, const ecx_coding *q) {
  ec_fb_slot per_channel[] = {FIELD(PerChannel, channel_dim, q->channel_dim),
                              FIELD(PerChannel, scale_buffer, q->scales)};
  ec_fb_slot per_token[] = {FIELD(PerToken, nonbatch_dims, 1)};
  ec_fb_slot per_tensor[] = {FIELD(PerTensor, scale, ec_float_bits(q->scale)),
                             FIELD(PerTensor, zero_point, (uint32_t)q->zero_point)};
  if (q->scales) put_table(w, slot, per_channel, COUNT(per_channel));
  else if (q->dtype == ECX_qdint8) put_table(w, slot, per_token, COUNT(per_token));
  else put_table(w, slot, per_tensor, COUNT(per_tensor));
}

static uint32_t type_of_coding(const ecx_coding *q) {
  if (q->scales) return ECX_QUANT_PER_CHANNEL;
  return q->dtype == ECX_qdint8 ? ECX_QUANT_PER_TOKEN : ECX_QUANT_PER_TENSOR;
}

static void put_value(writer *w, size_t slot, uint32_t id) {
  const ecx_coding *q = &w->d->values[id].coding;
  const bool is_plain = q->dtype == ECX_fp32;
  ec_fb_slot value[] = {
    FIELD(Value, value, 0),
    FIELD(Value, value_type, is_plain ? ECX_VALUE_PLAIN : ECX_VALUE_QUANTIZED)};
  put_table(w, slot, value, COUNT(value));
  if (is_plain) {
    put_tensor(w, value[0].at, id);
    return;
  }
  ec_fb_slot fields[] = {FIELD(QuantizedTensor, tensor, 0),
                         FIELD(QuantizedTensor, quantization, 0),
                         FIELD(QuantizedTensor, quantization_type, type_of_coding(q))};
  put_table(w, value[0].at, fields, COUNT(fields));
  put_tensor(w, fields[0].at, id);
  put_coding(w, fields[1].at, q);
}

/* Writes the parameters of a node: vectors, then numbers. */
static void put_parameters(writer *w, size_t slot, const ecx_draft_node *n) {
  ec_fb_slot fields[ECX_MAX_FIELDS + ECX_MAX_VECTORS];
  size_t count = n->vector_count;
  for (unsigned v = 0; v < n->vector_count; v++)
    fields[v] = (ec_fb_slot){n->vectors[v].field, 4, 0, 0};
  for (unsigned i = 0; i < ECX_MAX_FIELDS; i++)
    if (n->scalars >> i & 1) fields[count++] = (ec_fb_slot){i, 4, n->fields[i], 0};
  put_table(w, slot, fields, count);
  for (unsigned v = 0; v < n->vector_count; v++)
    put_vector(w, fields[v].at, n->vectors[v].items, n->vectors[v].count);
}

static void put_node(writer *w, size_t slot, const ecx_draft_node *n) {
  ec_fb_slot fields[] = {FIELD(Node, node, 0), FIELD(Node, node_type, n->kind),
                         FIELD(Node, min_max, 0)};
  ec_fb_slot bounds[] = {FIELD(MinMax, min, ec_float_bits(n->min)),
                         FIELD(MinMax, max, ec_float_bits(n->max))};
  put_table(w, slot, fields, n->has_bounds ? 3 : 2);
  put_parameters(w, fields[0].at, n);
  if (n->has_bounds) put_table(w, fields[2].at, bounds, COUNT(bounds));
}

static void put_graph(writer *w) {
  const ecx_draft *d = w->d;
  ec_fb_slot fields[] = {FIELD(Graph, nodes, 0), FIELD(Graph, values, 0),
                         FIELD(Graph, num_externs, d->extern_count)};
  ec_fb_put(&w->fb, "\0\0\0\0XN01", 8, 4);
  put_table(w, 0, fields, COUNT(fields));
  size_t nodes = 0;
  for (size_t i = 0; i < d->node_count; i++) nodes += !d->nodes[i].is_replaced;
  size_t slot = put_vector(w, fields[0].at, NULL, nodes);
  for (size_t i = 0; i < d->node_count; i++) {
    if (d->nodes[i].is_replaced) continue;
    put_node(w, slot, &d->nodes[i]);
    slot += 4;
  }
  slot = put_vector(w, fields[1].at, NULL, d->value_count);
  for (size_t i = 0; i < d->value_count; i++) put_value(w, slot + 4 * i, (uint32_t)i);
}

uint32_t ecx_draft_write(ecx_draft *d, void **bytes, ecx_payload *out) {
  writer w = {d, {.failed = d->failed, .alloc = d->c->host->alloc, .free = d->c->host->free}};
  if (!d->failed) put_graph(&w);
  *bytes = w.fb.data;
  if (w.fb.failed)
    return ecx_fail(d->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a graph of %zu nodes",
                    d->node_count);
  ECX_TRY(ecx_payload_open(d->c, w.fb.data, w.fb.size, out));
  out->memory = d->data;
  out->memory_count = (uint32_t)d->data_count;
  return EC_BACKEND_OK;
}
