/* Operands, nodes and blocks; operands as values of the program. */
#include "graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/half.h"
#include "grow.h"
#include "pack.h"

enum { FAULT_BYTES = 320 };

void ect_graph_close(ect_graph *g) {
  void *const all[] = {g->operands, g->groups, g->links, g->nodes, g->blocks, g->items};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) g->program.host->free(all[i]);
}

/* ---- readers --------------------------------------------------------------------------------- */

ect_operand ect_operand_new(uint8_t kind) {
  return (ect_operand){.kind = kind, .is_defined = kind != ECT_TENSOR, .id = ECT_NO_VALUE,
                       .scalar_type = -1, .border_type = -1, .group = ECT_ABSENT};
}

ect_operand ect_number_new(uint8_t kind, uint64_t bits) {
  ect_operand o = ect_operand_new(kind);
  o.bits = bits;
  return o;
}

ect_operand ect_list_new(uint8_t kind, const uint8_t *data, size_t count, uint32_t width) {
  ect_operand o = ect_operand_new(kind);
  o.data = data ? data : (const uint8_t *)"";
  o.data_size = data ? count * width : 0;
  o.width = width;
  return o;
}

ect_operand ect_text_new(ect_text text) {
  return ect_list_new(ECT_STRING, text.data, text.size, 1);
}

void ect_set_fault(ect_graph *g, ect_operand *o, uint32_t status, const char *fmt, ...) {
  char text[FAULT_BYTES];
  va_list args;
  if (o->fault) return;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  char *fault = ect_own(&g->program, strlen(text));
  o->fault = fault ? memcpy(fault, text, strlen(text)) : "no memory for a message";
  o->is_defined = true;
  o->status = status;
}

/* Makes room for one more row of an array of the graph. */
#define GROW(g, array, room, count) grow(g, &(g)->array, &(g)->room, (g)->count, sizeof *(g)->array)

static uint32_t grow(ect_graph *g, void *array, size_t *room, size_t count, size_t width) {
  void *items;
  memcpy(&items, array, sizeof items);
  items = count < ECT_ABSENT ? ect_grow(g->c.host, items, room, count, width) : NULL;
  if (!items)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for the graph");
  memcpy(array, &items, sizeof items);
  return EC_BACKEND_OK;
}

uint32_t ect_add_operand(ect_graph *g, const ect_operand *operand, uint32_t *out) {
  EC_BACKEND_TRY(GROW(g, operands, operand_room, operand_count));
  *out = (uint32_t)g->operand_count;
  g->operands[g->operand_count++] = *operand;
  return EC_BACKEND_OK;
}

uint32_t ect_add_group(ect_graph *g, const ect_group *group, uint32_t *out) {
  EC_BACKEND_TRY(GROW(g, groups, group_room, group_count));
  *out = (uint32_t)g->group_count;
  g->groups[g->group_count] = *group;
  g->groups[g->group_count++].number = ECT_NO_VALUE;
  return EC_BACKEND_OK;
}

uint32_t ect_add_link(ect_graph *g, ect_text name, uint32_t operand) {
  EC_BACKEND_TRY(GROW(g, links, link_room, link_count));
  g->links[g->link_count++] = (ect_link){name, operand};
  return EC_BACKEND_OK;
}

uint32_t ect_add_item(ect_graph *g, uint32_t operand) {
  EC_BACKEND_TRY(GROW(g, items, item_room, item_count));
  g->items[g->item_count++] = operand;
  return EC_BACKEND_OK;
}

uint32_t ect_add_block(ect_graph *g, const ect_block *block, uint32_t *out) {
  EC_BACKEND_TRY(GROW(g, blocks, block_room, block_count));
  *out = (uint32_t)g->block_count;
  g->blocks[g->block_count] = *block;
  g->blocks[g->block_count].first_node = g->blocks[g->block_count].last_node = ECT_ABSENT;
  g->block_count++;
  return EC_BACKEND_OK;
}

uint32_t ect_add_node(ect_graph *g, uint32_t block, const ect_node *node) {
  ect_block *b = &g->blocks[block];
  EC_BACKEND_TRY(GROW(g, nodes, node_room, node_count));
  const uint32_t number = (uint32_t)g->node_count++;
  g->nodes[number] = *node;
  g->nodes[number].next = ECT_ABSENT;
  if (b->last_node == ECT_ABSENT) b->first_node = number;
  else g->nodes[b->last_node].next = number;
  b->last_node = number;
  return EC_BACKEND_OK;
}

int64_t ect_number_at(const ect_operand *o, size_t i) {
  int64_t number = 0;
  if (!o->width) return i ? 0 : (int64_t)o->bits;
  if (i >= o->data_size / o->width) return 0;
  memcpy(&number, o->data + i * o->width, o->width < 8 ? o->width : 8);
  return o->width == 4 ? (int32_t)number : number;
}

double ect_decode(int32_t scalar_type, const uint8_t *bytes) {
  const size_t width = ec_backend_dtype_size(scalar_type);
  uint64_t bits = 0;
  float single;
  if (!width || width > sizeof bits) return 0;
  memcpy(&bits, bytes, width);
  const uint32_t low = (uint32_t)(scalar_type == EC_DTYPE_BFLOAT16 ? bits << 16 : bits);
  memcpy(&single, &low, sizeof single);
  switch (scalar_type) {
  case EC_DTYPE_FLOAT32:
  case EC_DTYPE_BFLOAT16: return (double)single;
  case EC_DTYPE_FLOAT16: return (double)ec_f16_to_f32((uint16_t)bits);
  case EC_DTYPE_BOOL:
  case EC_DTYPE_UINT8: return (double)bits;
  default: return (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
  }
}

size_t ect_element_count(const ect_operand *o) {
  const size_t width = ec_backend_dtype_size(o->scalar_type);
  return width ? o->data_size / width : 0;
}

void ect_unpack(const ect_operand *o, uint8_t *to, size_t count) {
  const size_t bits = o->stored_bits, width = ec_backend_dtype_size(o->scalar_type);
  const bool is_signed = o->scalar_type != EC_DTYPE_UINT8;
  for (size_t i = 0; i < count; i++) {
    const size_t first = i * bits, size = (first % 8 + bits + 7) / 8;
    uint64_t number = 0;
    memcpy(&number, o->data + first / 8, size);
    number <<= 64 - bits - first % 8;
    number = is_signed ? (uint64_t)((int64_t)number >> (64 - bits)) : number >> (64 - bits);
    memcpy(to + i * width, &number, width);
  }
}

ect_tensor ect_type_of(const ect_operand *o) {
  ect_tensor t = {.dtype = o->scalar_type, .rank = o->rank, .is_dynamic = o->is_dynamic,
                  .varying = o->varying};
  memcpy(t.sizes, o->sizes, sizeof t.sizes);
  return t;
}

bool ect_stored_bytes(const ect_operand *o, size_t *bytes) {
  size_t bits = o->stored_bits ? o->stored_bits : 8 * ec_backend_dtype_size(o->scalar_type);
  for (uint32_t d = 0; d < o->rank; d++)
    if (__builtin_mul_overflow(bits, (size_t)o->sizes[d], &bits)) return false;
  *bytes = bits / 8 + (bits % 8 != 0);
  return true;
}

/* ---- values of the program ------------------------------------------------------------------- */

uint32_t ect_refuse_as(ect_graph *g, uint32_t status, const char *fmt, ...) {
  char why[FAULT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(why, sizeof why, fmt, args);
  va_end(args);
  return EC_BACKEND_FAIL(&g->c, status, "%s%s", g->what, why + (*g->what || *why != ':' ? 0 : 2));
}

static uint32_t no_memory(ect_graph *g) {
  return ect_refuse(g, EC_BACKEND_ALLOCATION_FAILED, "no memory for the graph's values");
}

const char *ect_operand_name(const ect_graph *g, uint32_t number, char out[ECT_NOTE_BYTES]) {
  const ect_operand *o = &g->operands[number];
  const char *kind = o->kind == ECT_TENSOR ? "tensor " : "";
  if (o->name.size) snprintf(out, ECT_NOTE_BYTES, "%s'%.*s'", kind, ECT_CLIP(o->name, 80));
  else snprintf(out, ECT_NOTE_BYTES, "value %u", (unsigned)number);
  return out;
}

/* Makes a tensor one with the operand's own elements. */
static uint32_t use_data(ect_graph *g, ect_operand *o, ect_tensor *t, size_t bytes) {
  const void *data = o->data;
  size_t stored;
  if (!ect_stored_bytes(o, &stored) || stored > o->data_size)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "a constant has fewer bytes than its elements need");
  if (o->stored_bits && o->stored_bits != 8 * ec_backend_dtype_size(t->dtype)) {
    uint8_t *unpacked = ect_own(&g->program, bytes);
    if (!unpacked) return no_memory(g);
    ect_unpack(o, unpacked, bytes / ec_backend_dtype_size(t->dtype));
    data = unpacked;
  }
  t->constant = ect_add_constant(&g->program, data, bytes);
  return EC_BACKEND_OK;
}

/* Finds the bytes of a group. */
static uint32_t find_group(ect_graph *g, ect_group *group, size_t needed) {
  if (group->data) return EC_BACKEND_OK;
  if (!group->key) {
    group->data = ect_own(&g->program, needed);
    group->size = needed;
    return group->data ? EC_BACKEND_OK : no_memory(g);
  }
  const uint32_t status =
      g->c.host->named_data(g->c.call, group->key, &group->data, &group->size);
  if (status != EC_BACKEND_NOT_FOUND) return status;
  return ect_refuse(g, EC_BACKEND_NOT_FOUND,
                    "constant '%.80s' is neither in the program nor in a data file%s", group->key,
                    g->format->lost_data ? g->format->lost_data : "");
}

/* Makes a tensor one with the elements of a group. */
static uint32_t use_group(ect_graph *g, uint32_t number, ect_tensor *t, size_t bytes) {
  ect_group *group = &g->groups[g->operands[number].group];
  char name[ECT_NOTE_BYTES];
  EC_BACKEND_TRY(find_group(g, group, bytes));
  if (bytes != group->size && g->format->has_exact_data && group->key)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "%s has %zu bytes, expected %zu",
                      ect_operand_name(g, number, name), group->size, bytes);
  if (bytes > group->size)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "%s: a constant of %zu bytes has fewer bytes than its elements need",
                      ect_operand_name(g, number, name), group->size);
  if (group->number == ECT_NO_VALUE) {
    group->number = ect_add_constant(&g->program, group->data, group->size);
    if (group->is_external && !g->program.failed)
      g->program.constants[group->number].key = group->key;
  }
  t->constant = (uint32_t)group->number;
  return EC_BACKEND_OK;
}

static uint32_t add_tensor(ect_graph *g, uint32_t number, int64_t *out) {
  ect_operand *o = &g->operands[number];
  const bool is_constant = o->data || o->group != ECT_ABSENT;
  ect_tensor t = ect_type_of(o);
  char name[ECT_NOTE_BYTES];
  size_t bytes;
  if (t.dtype < 0)
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "%s has dtype %s (%u)",
                      ect_operand_name(g, number, name), o->dtype_name ? o->dtype_name : "unknown",
                      (unsigned)o->dtype);
  if (!ect_tensor_bytes(&t, &bytes))
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "%s is too large",
                      ect_operand_name(g, number, name));
  t.is_dynamic &= !is_constant;
  if (is_constant) t.role = o->is_state ? ECT_STATE : ECT_CONSTANT;
  if (o->data) EC_BACKEND_TRY(use_data(g, o, &t, bytes));
  else if (is_constant) EC_BACKEND_TRY(use_group(g, number, &t, bytes));
  *out = ect_add_tensor(&g->program, &t);
  return EC_BACKEND_OK;
}

static uint32_t fill_list(ect_graph *g, const ect_operand *o, int64_t *items, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const uint32_t item = o->width ? 0 : g->items[o->first + i];
    items[i] = ECT_NO_VALUE;
    if (o->width && o->kind == ECT_BOOL_LIST) items[i] = o->data[i];
    else if (o->width) items[i] = ect_number_at(o, i);
    else if (item != ECT_ABSENT && g->operands[item].kind != ECT_NONE)
      EC_BACKEND_TRY(ect_use(g, item, &items[i]));
  }
  return EC_BACKEND_OK;
}

static uint32_t add_list(ect_graph *g, const ect_operand *o, int64_t *out) {
  const size_t count = o->width ? ect_number_count(o) : o->count;
  int64_t *items = g->c.host->alloc((count + 1) * sizeof *items);
  if (!items) return no_memory(g);
  const uint32_t status = fill_list(g, o, items, count);
  if (status == EC_BACKEND_OK)
    *out = o->width && o->kind == ECT_INT_LIST
               ? ect_add_ints(&g->program, items, count)
               : ect_add_list(&g->program, (ect_kind)o->kind, items, count);
  g->c.host->free(items);
  return status;
}

static uint32_t add_value(ect_graph *g, uint32_t number, int64_t *out) {
  const ect_operand *o = &g->operands[number];
  double real;
  switch (o->kind) {
  case ECT_INT: *out = ect_add_int(&g->program, (int64_t)o->bits); return EC_BACKEND_OK;
  case ECT_BOOL: *out = ect_add_bool(&g->program, o->bits); return EC_BACKEND_OK;
  case ECT_DOUBLE:
    memcpy(&real, &o->bits, sizeof real);
    *out = ect_add_double(&g->program, real);
    return EC_BACKEND_OK;
  case ECT_STRING:
    *out = ect_add_string(&g->program, (const char *)o->data, o->data_size);
    return EC_BACKEND_OK;
  case ECT_NONE: *out = ect_add_none(&g->program); return EC_BACKEND_OK;
  case ECT_TENSOR: return add_tensor(g, number, out);
  case ECT_BLOCK: return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "an argument is a graph");
  default: return add_list(g, o, out);
  }
}

uint32_t ect_use(ect_graph *g, uint32_t number, int64_t *out) {
  const ect_operand *o = &g->operands[number];
  *out = o->id;
  if (o->id != ECT_NO_VALUE) return EC_BACKEND_OK;
  if (o->fault) return ect_refuse(g, o->status, "%s", o->fault);
  EC_BACKEND_TRY(add_value(g, number, out));
  g->operands[number].id = *out;
  return g->program.failed ? no_memory(g) : EC_BACKEND_OK;
}

uint32_t ect_use_tensor(ect_graph *g, uint32_t number, int64_t *out, ect_tensor *tensor) {
  char name[ECT_NOTE_BYTES];
  if (g->operands[number].kind != ECT_TENSOR && !g->operands[number].fault)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "%s is not a tensor",
                      ect_operand_name(g, number, name));
  EC_BACKEND_TRY(ect_use(g, number, out));
  *tensor = *ect_tensor_at(&g->program, *out);
  return EC_BACKEND_OK;
}
