/* Arguments, types and calls of a node. */
#include "call.h"

#include <string.h>

#include "../rows.h"

/* ---- arguments ------------------------------------------------------------------------------- */

uint32_t emx_find(const emx_call *c, const char *name) {
  for (uint32_t i = 0; i < c->n->input_count; i++) {
    const ect_link *link = &ect_inputs(c->g, c->n)[i];
    if (ect_text_is(link->name, name)) return link->operand;
  }
  return ECT_ABSENT;
}

uint32_t emx_tensor(const emx_call *c, const char *name, int64_t *value, ect_tensor *type) {
  const uint32_t operand = emx_find(c, name);
  if (operand == ECT_ABSENT) return EMX_INVALID(c, "no field '%s'", name);
  return ect_use_tensor(c->g, operand, value, type);
}

uint32_t emx_optional(const emx_call *c, const char *name, int64_t *value, ect_tensor *type) {
  if (emx_find(c, name) != ECT_ABSENT) return emx_tensor(c, name, value, type);
  *type = (ect_tensor){.dtype = -1};
  *value = ect_add_none(&c->g->program);
  return EC_BACKEND_OK;
}

uint32_t emx_literal(const emx_call *c, const char *name, int64_t otherwise, int64_t *out) {
  const uint32_t operand = emx_find(c, name);
  const ect_operand *o = operand == ECT_ABSENT ? NULL : &c->g->operands[operand];
  *out = otherwise;
  if (o && (o->kind != ECT_INT || o->name.size))
    return EMX_REFUSE(c, "'%s' is computed by the graph, expected a number of the payload", name);
  if (o) *out = (int64_t)o->bits;
  return EC_BACKEND_OK;
}

bool emx_bool(const emx_call *c, const char *name, bool otherwise) {
  const uint32_t operand = emx_find(c, name);
  return operand == ECT_ABSENT ? otherwise : c->g->operands[operand].bits != 0;
}

double emx_double(const emx_call *c, const char *name, double otherwise) {
  const uint32_t operand = emx_find(c, name);
  if (operand != ECT_ABSENT) memcpy(&otherwise, &c->g->operands[operand].bits, sizeof otherwise);
  return otherwise;
}

uint32_t emx_axis(const emx_call *c, const char *name, uint32_t rank, uint32_t *out) {
  int64_t axis = 0;
  *out = 0;
  EC_BACKEND_TRY(emx_literal(c, name, 0, &axis));
  if (axis < -(int64_t)rank || axis >= (int64_t)rank)
    return EMX_INVALID(c, "'%s' is %lld of a tensor with %u dimensions", name, (long long)axis,
                       (unsigned)rank);
  *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
  return EC_BACKEND_OK;
}

/* Returns the upper bound of an int; -1: unknown. */
static int64_t bound_of(const ect_operand *o, bool *is_literal) {
  *is_literal = !o->name.size;
  return *is_literal ? (int64_t)o->bits : o->sizes[0];
}

uint32_t emx_int(const emx_call *c, const char *name, int64_t *value, int64_t *bound,
                 bool *is_literal) {
  const uint32_t operand = emx_find(c, name);
  if (operand == ECT_ABSENT) return EMX_INVALID(c, "no field '%s'", name);
  if (c->g->operands[operand].kind != ECT_INT) return EMX_INVALID(c, "'%s' is not an int", name);
  *bound = bound_of(&c->g->operands[operand], is_literal);
  return ect_use(c->g, operand, value);
}

/* Reads the bounds of a list of ints. */
static uint32_t read_bounds(const emx_call *c, const char *name, int64_t *bounds, uint32_t *count,
                            bool *is_literal) {
  const uint32_t operand = emx_find(c, name);
  *count = 0;
  *is_literal = true;
  if (operand == ECT_ABSENT) return EC_BACKEND_OK;
  const ect_operand *o = &c->g->operands[operand];
  const size_t all = o->width ? ect_number_count(o) : o->count;
  if (o->kind != ECT_INT_LIST) return EMX_INVALID(c, "'%s' is not a list of ints", name);
  if (all > ECT_MAX_RANK)
    return EMX_REFUSE(c, "'%s' has %zu items, expected at most %d", name, all, ECT_MAX_RANK);
  for (; *count < all; ++*count) {
    bool one = true;
    if (o->width) bounds[*count] = ect_number_at(o, *count);
    else bounds[*count] = bound_of(&c->g->operands[c->g->items[o->first + *count]], &one);
    *is_literal &= one;
  }
  return EC_BACKEND_OK;
}

uint32_t emx_ints(const emx_call *c, const char *name, int64_t *value, int64_t *bounds,
                  uint32_t *count, bool *is_literal) {
  const uint32_t operand = emx_find(c, name);
  EC_BACKEND_TRY(read_bounds(c, name, bounds, count, is_literal));
  if (operand != ECT_ABSENT) return ect_use(c->g, operand, value);
  *value = ect_add_ints(&c->g->program, NULL, 0);
  return EC_BACKEND_OK;
}

uint32_t emx_literals(const emx_call *c, const char *name, int64_t *items, uint32_t *count) {
  bool is_literal;
  EC_BACKEND_TRY(read_bounds(c, name, items, count, &is_literal));
  if (is_literal) return EC_BACKEND_OK;
  return EMX_REFUSE(c, "'%s' is computed by the graph, expected numbers of the payload", name);
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool is_unsigned(int32_t dtype) {
  return dtype == EC_DTYPE_UINT8 || (dtype >= EC_DTYPE_UINT16 && dtype <= EC_DTYPE_UINT64);
}

static bool is_float(int32_t dtype) {
  return dtype == EC_DTYPE_FLOAT16 || dtype == EC_DTYPE_FLOAT32 || dtype == EC_DTYPE_BFLOAT16;
}

int32_t emx_float(int32_t dtype) { return is_float(dtype) ? dtype : EC_DTYPE_FLOAT32; }

int32_t emx_work(int32_t dtype) {
  return dtype >= EC_DTYPE_UINT16 && dtype <= EC_DTYPE_UINT64 ? EC_DTYPE_INT64 : dtype;
}

int32_t emx_order_type(int32_t dtype) {
  return dtype == EC_DTYPE_BOOL ? EC_DTYPE_UINT8 : emx_work(dtype);
}

/* Returns the signed dtype of twice the bytes. */
static int32_t widen(int32_t dtype) {
  switch (dtype) {
  case EC_DTYPE_UINT8: return EC_DTYPE_INT16;
  case EC_DTYPE_UINT16: return EC_DTYPE_INT32;
  case EC_DTYPE_UINT32: return EC_DTYPE_INT64;
  default: return EC_DTYPE_FLOAT32;
  }
}

int32_t emx_promote(int32_t a, int32_t b) {
  if (a == b || b == EC_DTYPE_BOOL) return a;
  if (a == EC_DTYPE_BOOL) return b;
  if (is_float(a) && is_float(b)) return EC_DTYPE_FLOAT32;
  if (is_float(a) || is_float(b)) return is_float(a) ? a : b;
  const size_t a_size = ec_backend_dtype_size(a), b_size = ec_backend_dtype_size(b);
  if (is_unsigned(a) == is_unsigned(b)) return a_size > b_size ? a : b;
  const bool a_is_signed = !is_unsigned(a);
  if (a_is_signed ? a_size > b_size : b_size > a_size) return a_is_signed ? a : b;
  return widen(a_is_signed ? b : a);
}

ect_tensor emx_like(const ect_tensor *type, int32_t dtype) {
  ect_tensor t = *type;
  t.dtype = dtype;
  t.role = ECT_COMPUTED;
  t.constant = 0;
  return t;
}

void emx_broadcast(ect_tensor *type, const ect_tensor *other) {
  const uint32_t rank = type->rank > other->rank ? type->rank : other->rank;
  int64_t sizes[ECT_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) {
    const int64_t a = d + type->rank < rank ? 1 : type->sizes[d + type->rank - rank];
    const int64_t b = d + other->rank < rank ? 1 : other->sizes[d + other->rank - rank];
    sizes[d] = a == 1 ? b : b == 1 ? a : a < 0 || b < 0 ? -1 : a > b ? a : b;
  }
  memcpy(type->sizes, sizes, rank * sizeof *sizes);
  type->rank = rank;
  type->is_dynamic |= other->is_dynamic;
}

void emx_set_type(ect_graph *g, uint32_t operand, const ect_tensor *type) {
  ect_operand *o = &g->operands[operand];
  o->scalar_type = type->dtype;
  o->rank = type->rank;
  o->is_dynamic = type->is_dynamic || ect_is_unbounded(type);
  memcpy(o->sizes, type->sizes, sizeof o->sizes);
  for (uint32_t d = 0; d < type->rank; d++) o->unknown += type->sizes[d] < 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

uint32_t emx_helper(const emx_call *c, const char *op, const int64_t *args, size_t count,
                    const ect_tensor *type, int64_t *out) {
  const ect_tensor t = emx_like(type, type->dtype);
  *out = ect_add_tensor(&c->g->program, &t);
  return ect_call_op(c->g, op, args, count, out, 1, NULL);
}

uint32_t emx_finish(const emx_call *c, const char *op, const int64_t *args, size_t count,
                    const ect_tensor *type) {
  ect_program *p = &c->g->program;
  const uint32_t operand = ect_outputs(c->g, c->n)[0].operand;
  const ect_tensor *first = p->failed ? NULL : ect_tensor_at(p, args[0]);
  const bool is_kept = strncmp(op, "mlx::", 5) == 0 || strcmp(op, "aten::_to_copy.out") == 0 ||
                       (first && first->dtype == type->dtype);
  const int32_t work = is_kept ? type->dtype : emx_work(type->dtype);
  int64_t out, computed;
  ect_tensor t = emx_like(type, type->dtype);
  if (t.rank > ECT_MAX_RANK) return EMX_REFUSE(c, "more than %d dimensions", ECT_MAX_RANK);
  emx_set_type(c->g, operand, &t);
  EC_BACKEND_TRY(ect_use_tensor(c->g, operand, &out, &t));
  if (work == type->dtype) return ect_call_op(c->g, op, args, count, &out, 1, c->shown);
  t = emx_like(type, work);
  EC_BACKEND_TRY(emx_helper(c, op, args, count, &t, &computed));
  ect_add_copy(p, computed, out, c->shown);
  return EC_BACKEND_OK;
}

/* ---- numbers in their order ------------------------------------------------------------------ */

/* Adds a call that changes the highest bit of int64s. */
static uint32_t flip(const emx_call *c, int64_t value, const ect_tensor *type, int64_t *out) {
  const int64_t args[] = {value, ect_add_int(&c->g->program, INT64_MIN)};
  const ect_tensor t = emx_like(type, EC_DTYPE_INT64);
  return emx_helper(c, "aten::bitwise_xor.Scalar_out", args, 2, &t, out);
}

uint32_t emx_order(const emx_call *c, int64_t value, const ect_tensor *type, int32_t dtype,
                   int64_t *out) {
  *out = ect_convert(&c->g->program, value, emx_order_type(dtype));
  return dtype == EC_DTYPE_UINT64 ? flip(c, *out, type, out) : (uint32_t)EC_BACKEND_OK;
}

uint32_t emx_finish_order(const emx_call *c, const char *op, const int64_t *args, size_t count,
                          const ect_tensor *type) {
  const ect_tensor t = emx_like(type, emx_order_type(type->dtype));
  int64_t out;
  if (t.dtype == emx_work(type->dtype) && type->dtype != EC_DTYPE_UINT64)
    return emx_finish(c, op, args, count, type);
  EC_BACKEND_TRY(emx_helper(c, op, args, count, &t, &out));
  if (type->dtype == EC_DTYPE_UINT64) EC_BACKEND_TRY(flip(c, out, &t, &out));
  return emx_finish(c, "aten::_to_copy.out", &out, 1, type);
}
