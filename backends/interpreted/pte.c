/* The .pte writer: header, tables of program.fbs in the order in which they refer to each other,
 * segments. */
#include "pte.h"

#include <string.h>

#include "plan.h"

enum {
  HEADER_BYTES = 40, /* root offset, "ET12", "eh00", length, sizes of program and segments */
  LONG_HEADER = 32,
  SEGMENT_ALIGN = 64,
  DYNAMIC_BOUND = 1,
  DYNAMIC_UNBOUND = 2
};

/* Field ids of program.fbs, where they are used more than once. */
enum { KERNEL_CALL = 1, JUMP_FALSE_CALL = 4 }; /* kinds of instructions */
enum { VALUES = 2, INPUTS = 3, OUTPUTS = 4, CHAINS = 5, OPERATORS = 6, MEMORY = 8 };

typedef struct writer {
  const ect_method *methods;
  size_t method_count;
  ec_fb_writer *b;
  ect_program *p; /* of the current method */
  ect_plan plan;  /* likewise */
  size_t first;   /* its first constant */
  uint64_t *starts; /* of all constants in their segment */
  size_t constant_count;
} writer;

/* Appends a table with offsets only; `at` receives their slots. */
static size_t put_links(writer *w, const unsigned *ids, size_t count, size_t *at) {
  ec_fb_slot fields[8];
  for (size_t i = 0; i < count; i++) fields[i] = (ec_fb_slot){ids[i], 4, 0, 0};
  const size_t table = ec_fb_put_table(w->b, fields, count);
  for (size_t i = 0; i < count; i++) at[i] = fields[i].at;
  return table;
}

/* Appends a vector of `count` offsets, linked at `slot`. Returns the first offset's position. */
static size_t put_offsets(writer *w, size_t slot, size_t count) {
  const size_t at = ec_fb_put_vector(w->b, NULL, count, 4);
  ec_fb_link(w->b, slot, at);
  return at + 4;
}

static void put_i32s(writer *w, size_t slot, const int64_t *items, size_t count) {
  const size_t at = put_offsets(w, slot, count);
  for (size_t i = 0; i < count; i++) ec_fb_poke(w->b, at + 4 * i, (uint64_t)items[i], 4);
}

/* ---- values ---------------------------------------------------------------------------------- */

static size_t put_allocation(writer *w, uint32_t memory, uint64_t offset) {
  ec_fb_slot fields[] = {
      {0, 4, memory, 0}, {1, 4, offset & UINT32_MAX, 0}, {2, 4, offset >> 32, 0}};
  return ec_fb_put_table(w->b, fields, 3);
}

/* Appends the name of external data. */
static size_t put_external(writer *w, const char *key) {
  enum { EXTERNAL = 1 };
  ec_fb_slot fields[] = {{1, 4, 0, 0}, {2, 1, EXTERNAL, 0}};
  const size_t table = ec_fb_put_table(w->b, fields, 2);
  ec_fb_link(w->b, fields[0].at, ec_fb_put_string(w->b, key, strlen(key)));
  return table;
}

static size_t put_tensor(writer *w, size_t number) {
  enum { SIZES, ORDER, BUFFER, DTYPE, DYNAMISM, EXTRA, ALLOCATION, FIELDS };
  const ect_tensor *t = &w->p->tensors[number];
  const char *key = t->role == ECT_COMPUTED ? NULL : w->p->constants[t->constant].key;
  const bool is_unbounded = ect_is_unbounded(t);
  const bool has_bytes = t->role != ECT_COMPUTED && !key;
  ec_fb_slot fields[FIELDS] = {
      [SIZES] = {2, 4, 0, 0},
      [ORDER] = {3, 4, 0, 0},
      [BUFFER] = {5, 4, has_bytes ? (uint64_t)w->first + t->constant + 1 : 0, 0},
      [DTYPE] = {0, 1, (uint64_t)t->dtype, 0},
      [DYNAMISM] = {8, 1, is_unbounded ? DYNAMIC_UNBOUND : t->is_dynamic ? DYNAMIC_BOUND : 0, 0},
  };
  size_t count = EXTRA, extra = 0, allocation = 0;
  uint8_t order[ECT_MAX_RANK];
  int64_t sizes[ECT_MAX_RANK];
  for (uint32_t d = 0; d < t->rank; d++) {
    order[d] = (uint8_t)d;
    sizes[d] = t->sizes[d] < 0 ? 0 : t->sizes[d];
  }
  if (key) fields[extra = count++] = (ec_fb_slot){9, 4, 0, 0};
  if (t->role != ECT_CONSTANT && !is_unbounded)
    fields[allocation = count++] = (ec_fb_slot){6, 4, 0, 0};
  const size_t table = ec_fb_put_table(w->b, fields, count);
  put_i32s(w, fields[SIZES].at, sizes, t->rank);
  ec_fb_link(w->b, fields[ORDER].at, ec_fb_put_vector(w->b, order, t->rank, 1));
  if (extra) ec_fb_link(w->b, fields[extra].at, put_external(w, key));
  if (allocation)
    ec_fb_link(
        w->b, fields[allocation].at,
        put_allocation(w, t->role == ECT_STATE ? ECT_KEPT : ECT_WORK, w->plan.offsets[number]));
  return table;
}

static size_t item_bytes(ect_kind kind) {
  if (kind == ECT_BOOL_LIST) return 1;
  return kind == ECT_INT_LIST || kind == ECT_DOUBLE_LIST ? 8 : 4;
}

/* Appends the table of a list: field 0 of each kind is its items. */
static size_t put_list(writer *w, const ect_value *v) {
  static const unsigned ids[] = {0};
  size_t slot;
  const size_t width = item_bytes((ect_kind)v->kind), table = put_links(w, ids, 1, &slot);
  const size_t at = ec_fb_put_vector(w->b, NULL, v->as.list.count, width);
  ec_fb_link(w->b, slot, at);
  for (size_t i = 0; i < v->as.list.count; i++)
    ec_fb_poke(w->b, at + 4 + width * i, (uint64_t)w->p->items[v->as.list.first + i], width);
  return table;
}

static size_t put_scalar(writer *w, uint64_t bits, unsigned size) {
  ec_fb_slot field = {0, size, bits, 0};
  return ec_fb_put_table(w->b, &field, 1);
}

static size_t put_content(writer *w, const ect_value *v) {
  static const unsigned ids[] = {0};
  uint64_t bits;
  size_t slot, table;
  switch ((ect_kind)v->kind) {
  case ECT_NONE: return ec_fb_put_table(w->b, NULL, 0);
  case ECT_INT: return put_scalar(w, (uint64_t)v->as.i, 8);
  case ECT_BOOL: return put_scalar(w, v->as.b, 1);
  case ECT_DOUBLE: memcpy(&bits, &v->as.d, sizeof bits); return put_scalar(w, bits, 8);
  case ECT_TENSOR: return put_tensor(w, v->as.tensor);
  case ECT_STRING:
    table = put_links(w, ids, 1, &slot);
    ec_fb_link(w->b, slot, ec_fb_put_string(w->b, v->as.string.text, v->as.string.size));
    return table;
  case ECT_INT_LIST:
  case ECT_DOUBLE_LIST:
  case ECT_BOOL_LIST:
  case ECT_TENSOR_LIST:
  case ECT_OPTIONAL_TENSOR_LIST: break;
  }
  return put_list(w, v);
}

static void put_values(writer *w, size_t slot) {
  const size_t at = put_offsets(w, slot, w->p->value_count);
  for (size_t i = 0; i < w->p->value_count && !w->b->failed; i++) {
    const ect_value *v = &w->p->values[i];
    ec_fb_slot fields[] = {{1, 4, 0, 0}, {0, 1, v->kind, 0}};
    ec_fb_link(w->b, at + 4 * i, ec_fb_put_table(w->b, fields, 2));
    ec_fb_link(w->b, fields[0].at, put_content(w, v));
  }
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void put_operators(writer *w, size_t slot) {
  static const unsigned ids[] = {0, 1};
  const size_t at = put_offsets(w, slot, w->p->op_count);
  for (size_t i = 0; i < w->p->op_count; i++) {
    size_t slots[2];
    const char *name = w->p->ops[i], *dot = strchr(name, '.');
    const size_t size = dot ? (size_t)(dot - name) : strlen(name);
    ec_fb_link(w->b, at + 4 * i, put_links(w, ids, 2, slots));
    ec_fb_link(w->b, slots[0], ec_fb_put_string(w->b, name, size));
    ec_fb_link(w->b, slots[1],
               ec_fb_put_string(w->b, dot ? dot + 1 : "", dot ? strlen(dot + 1) : 0));
  }
}

static size_t put_call(writer *w, const ect_call *c) {
  ec_fb_slot fields[] = {{1, 4, 0, 0}, {0, 4, c->op, 0}};
  const size_t table = ec_fb_put_table(w->b, fields, 2);
  put_i32s(w, fields[0].at, &w->p->items[c->first], c->count);
  return table;
}

static size_t put_jump(writer *w, const ect_call *c) {
  ec_fb_slot fields[] = {{0, 4, (uint64_t)w->p->items[c->first], 0}, {1, 4, c->target, 0}};
  return ec_fb_put_table(w->b, fields, 2);
}

static void put_chain(writer *w, size_t slot) {
  static const unsigned ids[] = {0, 1, 2};
  size_t slots[3];
  const size_t chains = put_offsets(w, slot, 1);
  ec_fb_link(w->b, chains, put_links(w, ids, 3, slots));
  put_i32s(w, slots[0], NULL, 0);
  put_i32s(w, slots[1], NULL, 0);
  const size_t at = put_offsets(w, slots[2], w->p->call_count);
  for (size_t i = 0; i < w->p->call_count && !w->b->failed; i++) {
    const ect_call *c = &w->p->calls[i];
    ec_fb_slot instruction[] = {{1, 4, 0, 0},
                                {0, 1, c->is_jump ? JUMP_FALSE_CALL : KERNEL_CALL, 0}};
    ec_fb_link(w->b, at + 4 * i, ec_fb_put_table(w->b, instruction, 2));
    ec_fb_link(w->b, instruction[0].at, c->is_jump ? put_jump(w, c) : put_call(w, c));
  }
}

static size_t put_method(writer *w, const char *name) {
  static const unsigned ids[] = {0, VALUES, INPUTS, OUTPUTS, CHAINS, OPERATORS, MEMORY};
  size_t slots[7];
  const size_t plan = put_links(w, ids, 7, slots);
  ec_fb_link(w->b, slots[0], ec_fb_put_string(w->b, name, strlen(name)));
  put_values(w, slots[1]);
  put_i32s(w, slots[2], w->p->inputs, w->p->input_count);
  put_i32s(w, slots[3], w->p->outputs, w->p->output_count);
  put_chain(w, slots[4]);
  put_operators(w, slots[5]);
  const size_t memory = w->plan.sizes[ECT_KEPT] ? ECT_ARENAS : ECT_KEPT;
  ec_fb_link(w->b, slots[6], ec_fb_put_vector(w->b, w->plan.sizes, memory, 8));
  return plan;
}

static void put_methods(writer *w, size_t slot) {
  const size_t plans = put_offsets(w, slot, w->method_count);
  for (size_t i = 0; i < w->method_count && !w->b->failed; i++) {
    w->p = w->methods[i].program;
    if (ect_plan_memory(w->p, &w->plan))
      ec_fb_link(w->b, plans + 4 * i, put_method(w, w->methods[i].name));
    else w->b->failed = true;
    ect_plan_free(w->p->host, &w->plan);
    w->first += w->p->constant_count;
  }
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Finds where constants begin in the segment. Returns its size. */
static uint64_t place_constants(writer *w) {
  uint64_t used = 0;
  size_t next = 0;
  for (size_t m = 0; m < w->method_count; m++) {
    const ect_program *p = w->methods[m].program;
    for (size_t i = 0; i < p->constant_count; i++) {
      used = (used + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
      w->starts[++next] = used;
      if (!p->constants[i].key) used += p->constants[i].size;
    }
  }
  return used;
}

static void put_constants(writer *w) {
  for (size_t m = 0; m < w->method_count; m++) {
    const ect_program *p = w->methods[m].program;
    for (size_t i = 0; i < p->constant_count; i++) {
      const ect_constant *c = &p->constants[i];
      ec_fb_put(w->b, c->data, c->key ? 0 : c->size, SEGMENT_ALIGN);
    }
  }
}

/* Appends the offsets of constants; state has the same segment. */
static size_t put_subsegments(writer *w) {
  ec_fb_slot fields[] = {{1, 4, 0, 0}, {0, 4, 0, 0}};
  const size_t table = ec_fb_put_table(w->b, fields, 2);
  ec_fb_link(w->b, fields[0].at, ec_fb_put_vector(w->b, w->starts, w->constant_count + 1, 8));
  return table;
}

static size_t put_segment(writer *w, uint64_t size) {
  ec_fb_slot fields[] = {{0, 8, 0, 0}, {1, 8, size, 0}};
  return ec_fb_put_table(w->b, fields, 2);
}

static void put_header(writer *w, size_t root, size_t program, size_t base, uint64_t segment) {
  ec_fb_poke(w->b, 0, root, 4);
  ec_fb_poke(w->b, 16, program, 8);
  ec_fb_poke(w->b, 24, base, 8);
  ec_fb_poke(w->b, 32, segment, 8);
}

static void put_program(writer *w) {
  static const unsigned ids[] = {1, 2, 4, 5, 6};
  size_t slots[5];
  ec_fb_put(w->b, "\0\0\0\0ET12eh00", 12, 1);
  ec_fb_put(w->b, NULL, HEADER_BYTES - 12, 1);
  ec_fb_poke(w->b, 12, LONG_HEADER, 4);
  const size_t root = put_links(w, ids, 5, slots);
  put_methods(w, slots[0]);
  put_offsets(w, slots[1], 0);
  const uint64_t segment = place_constants(w);
  const size_t segments = put_offsets(w, slots[2], 1);
  ec_fb_link(w->b, segments, put_segment(w, segment));
  ec_fb_link(w->b, slots[3], put_subsegments(w));
  const size_t state = put_offsets(w, slots[4], 1);
  ec_fb_link(w->b, state, put_subsegments(w));
  const size_t program = w->b->size, base = ec_fb_put(w->b, NULL, 0, SEGMENT_ALIGN);
  put_constants(w);
  put_header(w, root, program, base, segment);
}

uint32_t ect_write_pte(ec_host_call *call, const ect_method *methods, size_t count,
                       ec_fb_writer *out) {
  const ec_host *host = methods[0].program->host;
  writer w = {.methods = methods, .method_count = count, .b = out};
  bool ok = true;
  *out = (ec_fb_writer){.alloc = host->alloc, .free = host->free};
  for (size_t i = 0; i < count; i++) {
    ok = ok && !methods[i].program->failed;
    w.constant_count += methods[i].program->constant_count;
  }
  if (ok) w.starts = host->alloc((w.constant_count + 1) * sizeof *w.starts);
  ok = ok && w.starts;
  if (ok) put_program(&w);
  host->free(w.starts);
  if (ok && !out->failed) return EC_BACKEND_OK;
  host->free(out->data);
  *out = (ec_fb_writer){.alloc = host->alloc, .free = host->free};
  return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for the payload's program");
}
