/* The table of values of a program under construction. */
#include "values.h"

#include <stdio.h>
#include <string.h>

#include "grow.h"

/* Makes room for one more row of an array of the program. */
#define GROW(p, array, room, count)                                                                \
  ((p)->array = make_room(p, (p)->array, &(p)->room, (p)->count, sizeof *(p)->array), !(p)->failed)

static void *make_room(ect_program *p, void *items, size_t *room, size_t count, size_t width) {
  void *moved = p->failed ? NULL : ect_grow(p->host, items, room, count, width);
  if (!moved) p->failed = true;
  return moved ? moved : items;
}

void ect_free(ect_program *p) {
  for (size_t i = 0; i < p->owned_count; i++) p->host->free(p->owned[i]);
  void *const all[] = {p->values, p->tensors, p->constants, p->items,   p->calls,
                       p->ops,    p->owned,   p->inputs,    p->outputs, p->is_number,
                       p->narrowed};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) p->host->free(all[i]);
  *p = (ect_program){.host = p->host};
}

void *ect_own(ect_program *p, size_t size) {
  if (!GROW(p, owned, owned_room, owned_count)) return NULL;
  void *block = p->host->alloc(size + 1);
  if (block) p->owned[p->owned_count++] = block;
  else p->failed = true;
  return block;
}

static int64_t add_value(ect_program *p, const ect_value *value) {
  if (!GROW(p, values, value_room, value_count)) return 0;
  p->values[p->value_count] = *value;
  return (int64_t)p->value_count++;
}

int64_t ect_add_none(ect_program *p) { return add_value(p, &(ect_value){.kind = ECT_NONE}); }

int64_t ect_add_int(ect_program *p, int64_t number) {
  return add_value(p, &(ect_value){.kind = ECT_INT, .as.i = number});
}

int64_t ect_add_double(ect_program *p, double number) {
  return add_value(p, &(ect_value){.kind = ECT_DOUBLE, .as.d = number});
}

int64_t ect_add_bool(ect_program *p, bool truth) {
  return add_value(p, &(ect_value){.kind = ECT_BOOL, .as.b = truth});
}

int64_t ect_add_string(ect_program *p, const char *text, size_t size) {
  return add_value(p, &(ect_value){.kind = ECT_STRING, .as.string = {text, size}});
}

int64_t ect_add_tensor(ect_program *p, const ect_tensor *tensor) {
  if (!GROW(p, tensors, tensor_room, tensor_count)) return 0;
  p->tensors[p->tensor_count] = *tensor;
  return add_value(p, &(ect_value){.kind = ECT_TENSOR, .as.tensor = p->tensor_count++});
}

void *ect_add_owned(ect_program *p, const ect_tensor *type, ect_role role, int64_t *out) {
  ect_tensor t = *type;
  size_t bytes;
  void *data = ect_tensor_bytes(&t, &bytes) ? ect_own(p, bytes) : NULL;
  if (!data) return NULL;
  t.is_dynamic = false;
  t.role = (uint8_t)role;
  t.constant = ect_add_constant(p, data, bytes);
  *out = ect_add_tensor(p, &t);
  return data;
}

int64_t ect_add_like(ect_program *p, const ect_tensor *like, int32_t dtype) {
  ect_tensor t = *like;
  t.dtype = dtype;
  t.is_dynamic = true;
  t.role = ECT_COMPUTED;
  return ect_add_tensor(p, &t);
}

static bool add_item(ect_program *p, int64_t item) {
  if (!GROW(p, items, item_room, item_count)) return false;
  p->items[p->item_count++] = item;
  return true;
}

int64_t ect_add_list(ect_program *p, ect_kind kind, const int64_t *items, size_t count) {
  const ect_value list = {.kind = (uint8_t)kind, .as.list = {p->item_count, count}};
  for (size_t i = 0; i < count; i++)
    if (!add_item(p, items[i])) return 0;
  return add_value(p, &list);
}

int64_t ect_add_ints(ect_program *p, const int64_t *numbers, size_t count) {
  const int64_t first = (int64_t)p->value_count;
  for (size_t i = 0; i < count; i++) ect_add_int(p, numbers[i]);
  const ect_value list = {.kind = ECT_INT_LIST, .as.list = {p->item_count, count}};
  for (size_t i = 0; i < count; i++)
    if (!add_item(p, first + (int64_t)i)) return 0;
  return add_value(p, &list);
}

uint32_t ect_add_constant(ect_program *p, const void *data, size_t size) {
  if (!GROW(p, constants, constant_room, constant_count)) return 0;
  p->constants[p->constant_count] = (ect_constant){data, size, NULL};
  return (uint32_t)p->constant_count++;
}

/* Returns the number of an operator, added if it is new. Tables of operators bound the count. */
static uint32_t find_op(ect_program *p, const char *op) {
  for (size_t i = 0; i < p->op_count; i++)
    if (strcmp(p->ops[i], op) == 0) return (uint32_t)i;
  if (!GROW(p, ops, op_room, op_count)) return 0;
  snprintf(p->ops[p->op_count], sizeof p->ops[0], "%s", op);
  return (uint32_t)p->op_count++;
}

void ect_add_call(ect_program *p, const char *op, const int64_t *args, size_t count,
                  const ec_backend_node *node) {
  ect_call call = {.op = find_op(p, op), .first = p->item_count, .count = count};
  if (node) call.node = *node;
  for (size_t i = 0; i < count; i++)
    if (!add_item(p, args[i])) return;
  if (GROW(p, calls, call_room, call_count)) p->calls[p->call_count++] = call;
}

void ect_add_input(ect_program *p, int64_t value, bool is_number) {
  if (!GROW(p, inputs, input_room, input_count)) return;
  if (!GROW(p, is_number, number_room, input_count)) return;
  p->is_number[p->input_count] = is_number;
  p->inputs[p->input_count++] = value;
}

void ect_add_output(ect_program *p, int64_t value, int32_t narrowed) {
  if (!GROW(p, outputs, output_room, output_count)) return;
  if (!GROW(p, narrowed, narrowed_room, output_count)) return;
  p->narrowed[p->output_count] = narrowed;
  p->outputs[p->output_count++] = value;
}

size_t ect_add_jump(ect_program *p, int64_t condition) {
  const ect_call jump = {.is_jump = true, .first = p->item_count, .count = 1};
  if (!add_item(p, condition) || !GROW(p, calls, call_room, call_count)) return 0;
  p->calls[p->call_count] = jump;
  return p->call_count++;
}

void ect_set_target(ect_program *p, size_t jump) {
  if (!p->failed) p->calls[jump].target = (uint32_t)p->call_count;
}

size_t ect_add_leave(ect_program *p) { return ect_add_jump(p, ect_add_bool(p, false)); }

void ect_add_loop(ect_program *p, size_t first) {
  const size_t jump = ect_add_leave(p);
  if (!p->failed) p->calls[jump].target = (uint32_t)first;
}

void ect_add_copy(ect_program *p, int64_t from, int64_t to, const ec_backend_node *node) {
  const int64_t args[] = {from, ect_add_bool(p, false), ect_add_none(p), to};
  ect_add_call(p, "aten::_to_copy.out", args, 4, node);
  if (!p->failed) p->calls[p->call_count - 1].is_copy = !node;
}

void ect_copy_shared(ect_program *p) {
  for (size_t i = 0; i < p->output_count && !p->failed; i++) {
    const int64_t from = p->outputs[i];
    const ect_tensor t = *ect_tensor_at(p, from);
    bool shared = t.role != ECT_COMPUTED;
    for (size_t k = 0; k < p->input_count; k++) shared |= p->inputs[k] == from;
    for (size_t k = 0; k < i; k++) shared |= p->outputs[k] == from;
    if (!shared) continue;
    p->outputs[i] = ect_add_like(p, &t, t.dtype);
    ect_add_copy(p, from, p->outputs[i], NULL);
  }
}

const ect_value *ect_value_at(const ect_program *p, int64_t value) { return &p->values[value]; }

ect_tensor *ect_tensor_at(ect_program *p, int64_t value) {
  const ect_value *v = &p->values[value];
  return v->kind == ECT_TENSOR ? &p->tensors[v->as.tensor] : NULL;
}

bool ect_is_unbounded(const ect_tensor *t) {
  for (uint32_t d = 0; d < t->rank; d++)
    if (t->sizes[d] < 0) return true;
  return false;
}

bool ect_tensor_bytes(const ect_tensor *t, size_t *bytes) {
  size_t total = ec_backend_dtype_size(t->dtype);
  if (!total) return false;
  for (uint32_t d = 0; d < t->rank; d++) {
    const uint64_t size = t->sizes[d] < 0 ? 0 : (uint64_t)t->sizes[d];
    if (size && total > INT64_MAX / 2 / size) return false;
    total *= (size_t)size;
  }
  *bytes = total;
  return true;
}
