/* The arrays of a graph, and its dtypes. */
#include "graph.h"

#include <string.h>

#include "../grow.h"
#include "core/half.h"

typedef struct dtype_row {
  const char *text;
  int32_t scalar_type;
  uint32_t bits;
} dtype_row;

static const dtype_row dtypes[ETS_DTYPES] = {
#define ETS_DTYPE(number, name, text, scalar_type, bits) [number] = {text, scalar_type, bits},
#include "dtypes.def"
#undef ETS_DTYPE
};

const char *ets_dtype_name(uint32_t number) {
  return number < ETS_DTYPES && dtypes[number].text ? dtypes[number].text : "unknown";
}

int32_t ets_scalar_type(uint32_t number) {
  return number < ETS_DTYPES && dtypes[number].text ? dtypes[number].scalar_type : -1;
}

double ets_read_number(uint32_t dtype, const uint8_t *bytes) {
  const size_t width = ec_backend_dtype_size(ets_scalar_type(dtype));
  uint64_t bits = 0;
  float number;
  if (!width || width > sizeof bits) return 0;
  memcpy(&bits, bytes, width);
  const uint32_t single = (uint32_t)(dtype == ETS_BF16 ? bits << 16 : bits);
  memcpy(&number, &single, sizeof number);
  if (dtype == ETS_FP32 || dtype == ETS_BF16) return (double)number;
  if (dtype == ETS_FP16) return (double)ec_f16_to_f32((uint16_t)bits);
  return (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
}

bool ets_stored_bytes(const ets_value *v, size_t *bytes) {
  size_t bits = v->dtype < ETS_DTYPES ? dtypes[v->dtype].bits : 0;
  for (uint32_t d = 0; d < v->rank; d++)
    if (__builtin_mul_overflow(bits, (size_t)v->sizes[d], &bits)) return false;
  *bytes = bits / 8 + (bits % 8 != 0);
  return true;
}

int64_t ets_attribute_at(const ets_node *n, size_t attribute, size_t index) {
  const ets_attribute *a = &n->attributes[attribute];
  int64_t number = 0;
  if (index >= a->count) return 0;
  memcpy(&number, a->bytes + index * a->width, a->width);
  return a->width == 4 ? (int32_t)number : number;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

void ets_graph_close(void *graph) {
  ets_graph *g = graph;
  void *const all[] = {g->values, g->nodes, g->blocks, g->operands};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) g->program.host->free(all[i]);
}

/* Makes room for one more row of an array of the graph. */
#define GROW(g, array, room, count) grow(g, &(g)->array, &(g)->room, (g)->count, sizeof *(g)->array)

static uint32_t grow(ets_graph *g, void *array, size_t *room, size_t count, size_t width) {
  void *items;
  memcpy(&items, array, sizeof items);
  items = count < UINT32_MAX ? ect_grow(g->c.host, items, room, count, width) : NULL;
  if (!items)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for the graph");
  memcpy(array, &items, sizeof items);
  return EC_BACKEND_OK;
}

uint32_t ets_add_value(ets_graph *g, const ets_value *value, uint32_t *out) {
  size_t bytes;
  if (value->dtype != ETS_SHAPE && !ets_stored_bytes(value, &bytes))
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "'%.*s' (value %zu) is too large",
                           ETS_NAME_BYTES, value->name ? value->name : "", g->value_count);
  EC_BACKEND_TRY(GROW(g, values, value_room, value_count));
  *out = (uint32_t)g->value_count;
  g->values[g->value_count++] = *value;
  return EC_BACKEND_OK;
}

uint32_t ets_add_node(ets_graph *g, const ets_node *node) {
  EC_BACKEND_TRY(GROW(g, nodes, node_room, node_count));
  g->nodes[g->node_count++] = *node;
  return EC_BACKEND_OK;
}

uint32_t ets_add_block(ets_graph *g, const ets_block *block) {
  EC_BACKEND_TRY(GROW(g, blocks, block_room, block_count));
  g->blocks[g->block_count++] = *block;
  return EC_BACKEND_OK;
}

uint32_t ets_add_operand(ets_graph *g, uint32_t value) {
  EC_BACKEND_TRY(GROW(g, operands, operand_room, operand_count));
  g->operands[g->operand_count++] = value;
  return EC_BACKEND_OK;
}
