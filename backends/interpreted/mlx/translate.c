/* Nodes as calls: the rows of operators.def. */
#include "translate.h"

#include <string.h>

#include "../rows.h"
#include "special.h"

static const ect_row rows[] = {
#include "operators.def"
};

/* A row under translation. */
typedef struct packing {
  emx_call c;
  ect_tensor first, all; /* the type of the first tensor; of all, broadcast and promoted */
  bool has_first;
  int32_t promoted; /* -1: nothing is */
} packing;

/* ---- types ----------------------------------------------------------------------------------- */

/* Returns the text after an item of a row; `source` receives its field. */
static const char *next_source(const char *at, char *letter, char source[32]) {
  *letter = *at++;
  source[0] = '\0';
  if (*at != '(') return at;
  const size_t size = strcspn(++at, ")");
  memcpy(source, at, size);
  source[size] = '\0';
  return at + size + 1;
}

/* Finds the types of a row's tensors, and what they are promoted to. */
static uint32_t read_types(packing *k, const char *items) {
  char letter, source[32];
  k->promoted = -1;
  while (*items) {
    items = next_source(items, &letter, source);
    const uint32_t operand = source[0] ? emx_find(&k->c, source) : ECT_ABSENT;
    if (!strchr("=wpPfcoO", letter) || operand == ECT_ABSENT) continue;
    int64_t value;
    ect_tensor t;
    EC_BACKEND_TRY(ect_use_tensor(k->c.g, operand, &value, &t));
    t = emx_like(&t, t.dtype);
    if (strchr("pPO", letter))
      k->promoted = k->promoted < 0 ? t.dtype : emx_promote(k->promoted, t.dtype);
    if (!k->has_first) k->first = k->all = t;
    else emx_broadcast(&k->all, &t);
    k->has_first = true;
  }
  return EC_BACKEND_OK;
}

/* Removes an axis from a shape, or makes it 1. */
static void reduce_axes(ect_tensor *t, const bool *is_reduced, bool keeps) {
  uint32_t rank = 0;
  for (uint32_t d = 0; d < t->rank; d++)
    if (!is_reduced[d] || keeps) t->sizes[rank++] = is_reduced[d] ? 1 : t->sizes[d];
  t->rank = rank;
}

uint32_t emx_reduce_type(const emx_call *c, ect_tensor *t) {
  bool is_reduced[ECT_MAX_RANK] = {false};
  int64_t axes[ECT_MAX_RANK];
  uint32_t count;
  EC_BACKEND_TRY(emx_literals(c, "axes", axes, &count));
  for (uint32_t i = 0; i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)t->rank : axes[i];
    if (axis < 0 || axis >= (int64_t)t->rank || is_reduced[axis])
      return EMX_INVALID(c, "'axes' has %lld for a tensor of %u dimensions", (long long)axes[i],
                         (unsigned)t->rank);
    is_reduced[axis] = true;
  }
  for (uint32_t d = 0; d < t->rank && !count; d++) is_reduced[d] = true;
  reduce_axes(t, is_reduced, emx_bool(c, "keepdims", false));
  return EC_BACKEND_OK;
}

static uint32_t set_sizes(packing *k, char rule, ect_tensor *t) {
  bool is_reduced[ECT_MAX_RANK] = {false};
  uint32_t axis;
  switch (rule) {
  case 'b': *t = k->all; return EC_BACKEND_OK;
  case 'r': return emx_reduce_type(&k->c, t);
  case 'a':
    EC_BACKEND_TRY(emx_axis(&k->c, "axis", t->rank, &axis));
    is_reduced[axis] = true;
    reduce_axes(t, is_reduced, emx_bool(&k->c, "keepdims", false));
    return EC_BACKEND_OK;
  default: return EC_BACKEND_OK;
  }
}

int32_t emx_sum_type(int32_t dtype) {
  switch (dtype) {
  case EC_DTYPE_BOOL:
  case EC_DTYPE_INT8:
  case EC_DTYPE_INT16: return EC_DTYPE_INT32;
  case EC_DTYPE_UINT8:
  case EC_DTYPE_UINT16: return EC_DTYPE_UINT32;
  default: return dtype;
  }
}

uint32_t emx_scalar_type(const emx_call *c, int32_t otherwise, int32_t *out) {
  int64_t number;
  const int64_t fallback = emx_find(c, "scalar_type") == ECT_ABSENT ? otherwise : 0;
  EC_BACKEND_TRY(emx_literal(c, "scalar_type", fallback, &number));
  if (number < 0 || number > EC_DTYPE_UINT64 || !ec_backend_dtype_size((int32_t)number))
    return EMX_INVALID(c, "ScalarType %lld", (long long)number);
  *out = (int32_t)number;
  return EC_BACKEND_OK;
}

static uint32_t set_type(packing *k, const char *rule, ect_tensor *t) {
  int32_t dtype = k->first.dtype;
  *t = k->first;
  EC_BACKEND_TRY(set_sizes(k, rule[1], t));
  switch (rule[0]) {
  case 'p':
  case 'O': dtype = k->promoted; break;
  case 'P': dtype = emx_float(k->promoted); break;
  case 'f': dtype = emx_float(dtype); break;
  case 'b': dtype = EC_DTYPE_BOOL; break;
  case 'u': dtype = EC_DTYPE_UINT32; break;
  case 's': dtype = emx_sum_type(dtype); break;
  case 't': EC_BACKEND_TRY(emx_scalar_type(&k->c, dtype, &dtype)); break;
  default: break;
  }
  *t = emx_like(t, dtype);
  return EC_BACKEND_OK;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t read_tensor(packing *k, const ect_item *item, int64_t *out) {
  ect_tensor t;
  EC_BACKEND_TRY(emx_optional(&k->c, item->source, out, &t));
  if (t.dtype < 0) return EC_BACKEND_OK;
  int32_t dtype = t.dtype;
  switch (item->letter) {
  case 'o': return emx_order(&k->c, *out, &t, dtype, out);
  case 'O': return emx_order(&k->c, *out, &t, k->promoted, out);
  case 'p': dtype = k->promoted; break;
  case 'P': dtype = emx_float(k->promoted); break;
  case 'f': dtype = emx_float(dtype); break;
  case 'c': dtype = EC_DTYPE_BOOL; break;
  default: break;
  }
  if (item->letter != 'w') *out = ect_convert(&k->c.g->program, *out, emx_work(dtype));
  return EC_BACKEND_OK;
}

/* Reads the approximation of Gelu: any but "tanh" is none. */
static int64_t read_gelu(packing *k, const char *source) {
  const uint32_t operand = emx_find(&k->c, source);
  const ect_operand *o = operand == ECT_ABSENT ? NULL : &k->c.g->operands[operand];
  const bool is_tanh = o && o->data_size == 4 && memcmp(o->data, "tanh", 4) == 0;
  return ect_add_string(&k->c.g->program, is_tanh ? "tanh" : "none", 4);
}

static uint32_t read_item(void *node, const ect_item *item, int64_t *out) {
  packing *k = node;
  ect_program *p = &k->c.g->program;
  const uint32_t operand = emx_find(&k->c, item->source);
  int64_t number, bounds[ECT_MAX_RANK];
  uint32_t count;
  bool is_literal;
  switch (item->letter) {
  case 'i':
    EC_BACKEND_TRY(emx_literal(&k->c, item->source, 0, &number));
    *out = ect_add_int(p, number);
    return EC_BACKEND_OK;
  case 'k': *out = ect_add_bool(p, emx_bool(&k->c, item->source, false)); return EC_BACKEND_OK;
  case 'x': *out = read_gelu(k, item->source); return EC_BACKEND_OK;
  case 'l': return emx_ints(&k->c, item->source, out, bounds, &count, &is_literal);
  case 'v':
    if (operand == ECT_ABSENT) return EMX_INVALID(&k->c, "no field '%s'", item->source);
    return ect_use(k->c.g, operand, out);
  default: return read_tensor(k, item, out);
  }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint32_t call_row(packing *k, const ect_row *row) {
  int64_t args[ECT_MAX_ARGS];
  size_t count;
  uint32_t taken;
  ect_tensor type;
  EC_BACKEND_TRY(read_types(k, row->args));
  if (!k->has_first) return EMX_INVALID(&k->c, "it reads no tensor");
  EC_BACKEND_TRY(
      ect_read_items(&k->c.g->program, row->args, NULL, read_item, k, args, &count, &taken));
  EC_BACKEND_TRY(set_type(k, row->results, &type));
  if (row->results[0] == 'o' || row->results[0] == 'O')
    return emx_finish_order(&k->c, row->op, args, count, &type);
  return emx_finish(&k->c, row->op, args, count, &type);
}

/* Returns an upper bound of an operation on ints; -1: unknown. */
static int64_t number_bound(ect_text op, int64_t a, int64_t b, bool b_is_literal) {
  int64_t bound;
  if (a < 0) return -1;
  if (ect_text_is(op, "AddInt")) return b < 0 || __builtin_add_overflow(a, b, &bound) ? -1 : bound;
  if (ect_text_is(op, "MultiplyInt"))
    return b < 0 || __builtin_mul_overflow(a, b, &bound) ? -1 : bound;
  if (!b_is_literal || b <= 0) return -1;
  if (ect_text_is(op, "SubtractInt")) return a > b ? a - b : 0;
  return ect_text_is(op, "ModInt") ? b - 1 : a / b;
}

/* An operator on ints. */
static uint32_t call_number(const emx_call *c, const char *op) {
  const uint32_t result = ect_outputs(c->g, c->n)[0].operand;
  int64_t args[3], a, b;
  bool a_is_literal, b_is_literal;
  EC_BACKEND_TRY(emx_int(c, "a", &args[0], &a, &a_is_literal));
  EC_BACKEND_TRY(emx_int(c, "b", &args[1], &b, &b_is_literal));
  EC_BACKEND_TRY(ect_use(c->g, result, &args[2]));
  c->g->operands[result].sizes[0] = number_bound(c->n->op, a, b, b_is_literal);
  ect_add_call(&c->g->program, op, args, 3, c->shown);
  return EC_BACKEND_OK;
}

/* Copies a new value to the state that a buffer is. */
static uint32_t keep_state(ect_graph *g, const ect_node *n) {
  int64_t from, to;
  ect_tensor t, state;
  EC_BACKEND_TRY(ect_use_tensor(g, ect_inputs(g, n)[0].operand, &from, &t));
  EC_BACKEND_TRY(ect_use_tensor(g, ect_outputs(g, n)[0].operand, &to, &state));
  bool fits = t.rank == state.rank;
  for (uint32_t d = 0; fits && d < t.rank; d++)
    fits = t.is_dynamic || t.sizes[d] < 0 || t.sizes[d] == state.sizes[d];
  if (!fits) return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the new value has another shape");
  ect_add_copy(&g->program, from, to, NULL);
  return EC_BACKEND_OK;
}

static uint32_t refuse_later(const emx_call *c) {
  return EMX_REFUSE(c, "a kernel in Metal's language, which runs on Apple's GPUs alone; export "
                       "without custom kernels");
}

uint32_t emx_translate(ect_graph *g, const ect_node *n) {
  ec_backend_node node;
  packing k = {.c = {g, n, ect_shown(g, n, &node)}};
  if (!n->shown) return keep_state(g, n);
  const ect_row *row = ECT_FIND_ROW(rows, n->op);
  if (!row) return EMX_REFUSE(&k.c, "the node is not known here");
  switch (row->kind) {
  case ECT_ROW_OP: return call_row(&k, row);
  case ECT_ROW_NUMBER: return call_number(&k.c, row->op);
  case ECT_ROW_LATER: return refuse_later(&k.c);
  default: return ((emx_special *)row->special)(&k.c);
  }
}
