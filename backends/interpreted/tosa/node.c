/* Operands of nodes: constants are unpacked at their first use. */
#include "node.h"

#include <stdio.h>
#include <string.h>

#include "../pack.h"
#include "../rows.h"

enum { WHAT = 160 };

static const char *const names[ETS_OPERATORS] = {
#define ETS_OP(number, name, ...) [number] = #name,
#include "operators.def"
};

const char *ets_op_name(uint32_t op) { return names[op]; }

/* Writes the node for messages: "CONV2D 'tosa_conv2d_default' (operator 17)". */
static const char *describe(const ets_graph *g, const ets_node *n, char text[WHAT]) {
  if (n->number == UINT32_MAX) {
    snprintf(text, WHAT, "inputs and outputs of the block");
    return text;
  }
  const char *name = n->output_count ? g->values[ets_outputs(g, n)[0]].name : NULL;
  snprintf(text, WHAT, "%s '%.*s' (operator %u)", names[n->op], ETS_NAME_BYTES, name ? name : "",
           (unsigned)n->number);
  return text;
}

uint32_t ets_refuse(ets_graph *g, const ets_node *n, uint32_t status, const char *why) {
  char text[WHAT];
  return EC_BACKEND_FAIL(&g->c, status, "%s: %s", describe(g, n, text), why);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Unpacks two int4 of each byte, the low one first. */
static void unpack_int4(const uint8_t *from, size_t count, int8_t *to) {
  for (size_t i = 0; i < count; i++) {
    const int nibble = from[i / 2] >> (4 * (i % 2)) & 15;
    to[i] = (int8_t)(nibble < 8 ? nibble : nibble - 16);
  }
}

/* Extends numbers of six bytes. */
static void extend_int48(const uint8_t *from, size_t count, int64_t *to) {
  enum { WIDTH = 6 };
  for (size_t i = 0; i < count; i++) {
    memcpy(&to[i], from + WIDTH * i, WIDTH);
    to[i] = (int64_t)((uint64_t)to[i] << 16) >> 16;
  }
}

static uint32_t add_constant(ets_graph *g, const ets_node *n, const ets_value *v, ect_tensor *t) {
  size_t stored, bytes;
  const void *data = v->data;
  if (!ets_stored_bytes(v, &stored) || stored > v->data_size || !ect_tensor_bytes(t, &bytes))
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM,
                      "a constant has fewer bytes than its elements need");
  if (v->dtype == ETS_INT4 || v->dtype == ETS_INT48) {
    void *unpacked = ect_own(&g->program, bytes);
    if (!unpacked) return ets_refuse(g, n, EC_BACKEND_ALLOCATION_FAILED, "no memory");
    if (v->dtype == ETS_INT4) unpack_int4(v->data, bytes, unpacked);
    else extend_int48(v->data, bytes / sizeof(int64_t), unpacked);
    data = unpacked;
  }
  t->role = ECT_CONSTANT;
  t->constant = ect_add_constant(&g->program, data, bytes);
  return EC_BACKEND_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns the number in the program of a value that is a tensor, added at its first use. */
static uint32_t translate_value(ets_graph *g, const ets_node *n, uint32_t value, int64_t *out) {
  ets_value *v = &g->values[value];
  ect_tensor t = {.dtype = ets_scalar_type(v->dtype), .rank = v->rank};
  char text[WHAT];
  if (v->id == ECT_NO_VALUE) {
    if (t.dtype < 0)
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "%s: '%.*s' has dtype %s (%u)",
                             describe(g, n, text), ETS_NAME_BYTES, v->name ? v->name : "",
                             ets_dtype_name(v->dtype), (unsigned)v->dtype);
    memcpy(t.sizes, v->sizes, sizeof t.sizes);
    if (v->data) EC_BACKEND_TRY(add_constant(g, n, v, &t));
    v->id = ect_add_tensor(&g->program, &t);
  }
  *out = v->id;
  if (g->program.failed) return ets_refuse(g, n, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  return EC_BACKEND_OK;
}

uint32_t ets_input(ets_graph *g, const ets_node *n, uint32_t index, const ets_value **out) {
  char text[WHAT];
  *out = NULL;
  if (index >= n->input_count)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "%s has %u inputs, expected more",
                           describe(g, n, text), (unsigned)n->input_count);
  const ets_value *v = &g->values[ets_inputs(g, n)[index]];
  if (!v->is_defined)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "%s: input '%.*s' is the result of no operator before it",
                           describe(g, n, text), ETS_NAME_BYTES, v->name ? v->name : "");
  *out = v;
  return EC_BACKEND_OK;
}

uint32_t ets_tensor(ets_graph *g, const ets_node *n, uint32_t index, int64_t *out) {
  *out = ECT_NO_VALUE;
  const ets_value *v;
  EC_BACKEND_TRY(ets_input(g, n, index, &v));
  return translate_value(g, n, ets_inputs(g, n)[index], out);
}

uint32_t ets_shape(ets_graph *g, const ets_node *n, uint32_t index, int64_t *out) {
  const ets_value *v;
  EC_BACKEND_TRY(ets_input(g, n, index, &v));
  if (v->dtype != ETS_SHAPE)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "an input is not a shape");
  *out = ect_add_ints(&g->program, v->sizes, v->rank);
  return EC_BACKEND_OK;
}

int64_t ets_list(ets_graph *g, const ets_node *n, size_t attribute) {
  int64_t items[ECT_MAX_RANK];
  const uint32_t given = n->attributes[attribute].count;
  const uint32_t count = given < ECT_MAX_RANK ? given : ECT_MAX_RANK;
  for (uint32_t i = 0; i < count; i++) items[i] = ets_attribute_at(n, attribute, i);
  return ect_add_ints(&g->program, items, count);
}

bool ets_is_float(uint32_t dtype) {
  return dtype == ETS_FP32 || dtype == ETS_FP16 || dtype == ETS_BF16;
}

int64_t ets_add_tensor(ets_graph *g, uint32_t dtype, uint32_t rank, const int64_t *sizes) {
  ect_tensor t = {.dtype = ets_scalar_type(dtype), .rank = rank};
  memcpy(t.sizes, sizes, rank * sizeof *sizes);
  return ect_add_tensor(&g->program, &t);
}

uint32_t ets_result(ets_graph *g, const ets_node *n, const ets_value **out) {
  *out = NULL;
  if (!n->output_count) return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "no result");
  *out = &g->values[ets_outputs(g, n)[0]];
  return EC_BACKEND_OK;
}

int64_t ets_convert(ets_graph *g, int64_t tensor, uint32_t from, uint32_t to) {
  return from == to ? tensor : ect_convert(&g->program, tensor, ets_scalar_type(to));
}

/* ---- calls ----------------------------------------------------------------------------------- */

uint32_t ets_define_results(ets_graph *g, const ets_node *n, int64_t *outs) {
  for (uint32_t i = 0; i < n->output_count; i++) {
    ets_value *v = &g->values[ets_outputs(g, n)[i]];
    if (v->is_defined || v->data)
      return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM,
                        "the result is a constant, an input or another result, too");
    EC_BACKEND_TRY(translate_value(g, n, ets_outputs(g, n)[i], &outs[i]));
    v->is_defined = true;
  }
  return EC_BACKEND_OK;
}

uint32_t ets_call_op(ets_graph *g, const ets_node *n, const char *op, const int64_t *args,
                     size_t count) {
  char text[WHAT];
  int64_t outs[ECT_MAX_ARGS];
  const ec_backend_node shown = {n->number, names[n->op], 0};
  if (n->output_count > ECT_MAX_ARGS)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "too many results");
  EC_BACKEND_TRY(ets_define_results(g, n, outs));
  const bool inner = n->number >= g->blocks[0].node_count; /* of a block that a node has */
  return ect_pack_call(g->c.call, &g->program, op, args, count, outs, n->output_count,
                       inner ? NULL : &shown, describe(g, n, text));
}

uint32_t ets_call_steps(ets_graph *g, const ets_node *n, const char *op, const int64_t *args,
                        size_t count, const int64_t *results, size_t result_count) {
  char text[WHAT];
  return ect_pack_call(g->c.call, &g->program, op, args, count, results, result_count, NULL,
                       describe(g, n, text));
}

uint32_t ets_call_step(ets_graph *g, const ets_node *n, const char *op, const int64_t *args,
                       size_t count, int64_t result) {
  return ets_call_steps(g, n, op, args, count, &result, 1);
}

uint32_t ets_permute(ets_graph *g, const ets_node *n, int64_t tensor, const int64_t *order,
                     int64_t *out) {
  if (g->program.failed) return ets_refuse(g, n, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  const ect_tensor *t = ect_tensor_at(&g->program, tensor);
  ect_tensor permuted = {.dtype = t->dtype, .rank = t->rank};
  for (uint32_t d = 0; d < t->rank; d++) permuted.sizes[d] = t->sizes[order[d]];
  *out = ect_add_tensor(&g->program, &permuted);
  const int64_t args[] = {tensor, ect_add_ints(&g->program, order, permuted.rank)};
  return ets_call_step(g, n, "aten::permute_copy.out", args, 2, *out);
}
