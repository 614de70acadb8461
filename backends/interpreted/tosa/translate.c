/* Nodes as calls: a row of operators.def for each. */
#include "translate.h"

#include <stdio.h>

#include "../control.h"
#include "../pack.h"
#include "../rows.h"
#include "conv.h"
#include "node.h"
#include "pool.h"
#include "shape.h"
#include "special.h"

typedef struct row {
  const char *floats, *integers, *arguments; /* floats NULL: translated by `special` */
  ets_translate_fn *special;
} row;

static const row rows[ETS_OPERATORS] = {
#define ETS_OP(number, name, attributes, floats, integers, arguments)                              \
  [number] = {floats, integers, arguments, NULL},
#define ETS_SPECIAL(number, name, attributes, function) [number] = {NULL, NULL, NULL, function},
#define ETS_LATER(number, name, attributes) [number] = {NULL, NULL, NULL, NULL},
#include "operators.def"
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds a list of all inputs. */
static uint32_t add_inputs(ect_graph *g, const ect_node *n, int64_t *out) {
  int64_t *items = g->c.host->alloc((n->input_count + 1u) * sizeof *items);
  uint32_t status = EC_BACKEND_OK;
  if (!items) return ect_refuse(g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < n->input_count; i++)
    status = ets_tensor(g, n, i, &items[i]);
  if (status == EC_BACKEND_OK)
    *out = ect_add_list(&g->program, ECT_TENSOR_LIST, items, n->input_count);
  g->c.host->free(items);
  return status;
}

/* A node whose row is read. */
typedef struct reading {
  ect_graph *g;
  const ect_node *n;
  uint32_t used; /* inputs */
} reading;

static uint32_t read_item(void *user, const ect_item *item, int64_t *out) {
  reading *r = user;
  ect_program *p = &r->g->program;
  const uint32_t k = (uint32_t)(item->source[0] - '0');
  if ((item->letter == '=' || item->letter == 's') && k >= r->used) r->used = k + 1;
  switch (item->letter) {
  case '=': return ets_tensor(r->g, r->n, k, out);
  case 's': return ets_shape(r->g, r->n, k, out);
  case 'i': *out = ect_add_int(p, ets_attribute_at(r->g, r->n, k, 0)); break;
  case 'b': *out = ect_add_bool(p, ets_attribute_at(r->g, r->n, k, 0) != 0); break;
  case 'l': *out = ets_list(r->g, r->n, k); break;
  default: r->used = r->n->input_count; return add_inputs(r->g, r->n, out);
  }
  return EC_BACKEND_OK;
}

static uint32_t call_row(ect_graph *g, const ect_node *n, const row *r) {
  int64_t args[ECT_MAX_ARGS];
  size_t count;
  uint32_t taken;
  const ect_operand *first;
  reading state = {g, n, 0};
  EC_BACKEND_TRY(ets_input(g, n, 0, &first));
  EC_BACKEND_TRY(
      ect_read_items(&g->program, r->arguments, NULL, read_item, &state, args, &count, &taken));
  if (state.used != n->input_count)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "more inputs than the operator has");
  const bool integers = r->integers && !ets_is_float(first->dtype);
  return ets_call_op(g, n, integers ? r->integers : r->floats, args, count);
}

/* ---- blocks of nodes ------------------------------------------------------------------------- */

/* Finds the block that an attribute names, which no other node has. */
static uint32_t find_block(ect_graph *g, const ect_node *n, size_t attribute, uint32_t *out) {
  const ect_operand *name = ets_attribute(g, n, attribute);
  *out = ECT_ABSENT;
  for (uint32_t i = 0; i < g->block_count; i++)
    if (ect_text_equal(g->blocks[i].name, (ect_text){name->data, name->data_size})) *out = i;
  if (*out == ECT_ABSENT || g->blocks[*out].is_used)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "its block does not exist, or belongs to another node");
  g->blocks[*out].is_used = true;
  return EC_BACKEND_OK;
}

/* COND_IF and WHILE_LOOP. */
uint32_t ets_call_blocks(ect_graph *g, const ect_node *n) {
  uint32_t blocks[2];
  int64_t condition, outs[ECT_MAX_ARGS];
  EC_BACKEND_TRY(find_block(g, n, 0, &blocks[0]));
  EC_BACKEND_TRY(find_block(g, n, 1, &blocks[1]));
  EC_BACKEND_TRY(ets_define_results(g, n, outs));
  if (n->kind == ETS_WHILE_LOOP) return ect_call_while(g, n, blocks);
  EC_BACKEND_TRY(ets_tensor(g, n, 0, &condition));
  return ect_call_cond(g, n, condition, blocks, n->first + 1, n->input_count - 1);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

uint32_t ets_translate(ect_graph *g, const ect_node *n) {
  const row *r = &rows[n->kind];
  if (r->special) return r->special(g, n);
  if (r->floats) return call_row(g, n, r);
  return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "the operator is not supported");
}

/* "CONV2D 'tosa_conv2d_default' (operator 17)" */
void ets_name(const ect_graph *g, const ect_node *n, char *out, size_t size) {
  const ect_text none = {(const uint8_t *)"", 0};
  const ect_text name =
      n->output_count ? g->operands[ect_outputs(g, n)[0].operand].name : none;
  snprintf(out, size, "%.*s '%.*s' (operator %u)", ECT_CLIP(n->op, 40), ECT_CLIP(name, 64),
           (unsigned)n->number);
}
