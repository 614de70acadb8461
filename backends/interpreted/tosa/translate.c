/* Nodes as calls: a row of operators.def for each. */
#include "translate.h"

#include <string.h>

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
static uint32_t add_inputs(ets_graph *g, const ets_node *n, int64_t *out) {
  int64_t *items = g->c.host->alloc((n->input_count + 1u) * sizeof *items);
  uint32_t status = EC_BACKEND_OK;
  if (!items) return ets_refuse(g, n, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < n->input_count; i++)
    status = ets_tensor(g, n, i, &items[i]);
  if (status == EC_BACKEND_OK)
    *out = ect_add_list(&g->program, ECT_TENSOR_LIST, items, n->input_count);
  g->c.host->free(items);
  return status;
}

/* A node whose row is read. */
typedef struct reading {
  ets_graph *g;
  const ets_node *n;
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
  case 'i': *out = ect_add_int(p, ets_attribute_at(r->n, k, 0)); break;
  case 'b': *out = ect_add_bool(p, ets_attribute_at(r->n, k, 0) != 0); break;
  case 'l': *out = ets_list(r->g, r->n, k); break;
  default: r->used = r->n->input_count; return add_inputs(r->g, r->n, out);
  }
  return EC_BACKEND_OK;
}

static uint32_t call_row(ets_graph *g, const ets_node *n, const row *r) {
  int64_t args[ECT_MAX_ARGS];
  size_t count;
  uint32_t taken;
  const ets_value *first;
  reading state = {g, n, 0};
  EC_BACKEND_TRY(ets_input(g, n, 0, &first));
  EC_BACKEND_TRY(
      ect_read_items(&g->program, r->arguments, NULL, read_item, &state, args, &count, &taken));
  if (state.used != n->input_count)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "more inputs than the operator has");
  const bool integers = r->integers && !ets_is_float(first->dtype);
  return ets_call_op(g, n, integers ? r->integers : r->floats, args, count);
}

static uint32_t translate_node(ets_graph *g, const ets_node *n) {
  const row *r = &rows[n->op];
  if (r->special) return r->special(g, n);
  if (r->floats) return call_row(g, n, r);
  return ets_refuse(g, n, EC_BACKEND_NOT_SUPPORTED, "the operator is not supported");
}

static uint32_t translate_block(ets_graph *g, const ets_block *b) {
  for (uint32_t i = 0; i < b->node_count; i++)
    EC_BACKEND_TRY(translate_node(g, &g->nodes[b->first_node + i]));
  return EC_BACKEND_OK;
}

/* ---- blocks of nodes ------------------------------------------------------------------------- */

/* Finds the block that an attribute names, which no other node has. */
static uint32_t find_block(ets_graph *g, const ets_node *n, size_t attribute, ets_block **out) {
  const ets_attribute *name = &n->attributes[attribute];
  *out = NULL;
  for (size_t i = 0; name->bytes && i < g->block_count; i++)
    if (strncmp(g->blocks[i].name, (const char *)name->bytes, name->count) == 0 &&
        g->blocks[i].name[name->count] == '\0')
      *out = &g->blocks[i];
  if (!*out || (*out)->is_used)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM,
                      "its block does not exist, or belongs to another node");
  (*out)->is_used = true;
  return EC_BACKEND_OK;
}

/* Makes inputs of the node, from `first` on, the inputs of its block; `ids` are their numbers in
 * the program if other values stand for them. */
static uint32_t pass_inputs(ets_graph *g, const ets_node *n, const ets_block *b, uint32_t first,
                            const int64_t *ids) {
  if (b->input_count + first != n->input_count)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "its block has other inputs");
  for (uint32_t i = 0; i < b->input_count; i++) {
    const ets_value *from;
    ets_value *to = &g->values[g->operands[b->first + i]];
    EC_BACKEND_TRY(ets_input(g, n, i + first, &from));
    if (to->is_defined || to->data || to->dtype != from->dtype || to->rank != from->rank ||
        memcmp(to->sizes, from->sizes, from->rank * sizeof *to->sizes) != 0)
      return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM,
                        "an input of its block has another dtype or shape");
    if (ids) to->id = ids[i];
    else if (from->dtype != ETS_SHAPE) EC_BACKEND_TRY(ets_tensor(g, n, i + first, &to->id));
    to->is_defined = true;
  }
  return EC_BACKEND_OK;
}

/* Translates a block with the node's inputs from `first` on; `ids` as above. The numbers of its
 * `count` outputs are then in `outs`. */
static uint32_t call_block(ets_graph *g, const ets_node *n, const ets_block *b, uint32_t first,
                           const int64_t *ids, uint32_t count, int64_t *outs) {
  const ets_node results = {.op = n->op, .number = n->number, .first = b->first + b->input_count,
                            .input_count = b->output_count};
  if (b->output_count != count)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "its block has other outputs");
  if (g->depth == ETS_MOST_NESTED)
    return ets_refuse(g, n, EC_BACKEND_NOT_SUPPORTED, "more than 64 blocks inside each other");
  EC_BACKEND_TRY(pass_inputs(g, n, b, first, ids));
  g->depth++;
  EC_BACKEND_TRY(translate_block(g, b));
  g->depth--;
  for (uint32_t i = 0; i < count; i++) EC_BACKEND_TRY(ets_tensor(g, &results, i, &outs[i]));
  return EC_BACKEND_OK;
}

/* Copies values to the node's results, which a trace shows in its place. */
static void copy_results(ets_graph *g, const ets_node *n, const int64_t *from, const int64_t *to) {
  const ec_backend_node shown = {n->number, ets_op_name(n->op), 0};
  const bool inner = g->depth > 0;
  for (uint32_t i = 0; i < n->output_count; i++)
    ect_add_copy(&g->program, from[i], to[i],
                 i + 1 == n->output_count && !inner ? &shown : NULL);
}

static uint32_t call_branch(ets_graph *g, const ets_node *n, const ets_block *b,
                            const int64_t *outs) {
  int64_t found[ECT_MAX_ARGS];
  EC_BACKEND_TRY(call_block(g, n, b, 1, NULL, n->output_count, found));
  copy_results(g, n, found, outs);
  return EC_BACKEND_OK;
}

uint32_t ets_call_cond_if(ets_graph *g, const ets_node *n) {
  ect_program *p = &g->program;
  ets_block *then, *otherwise;
  int64_t condition, outs[ECT_MAX_ARGS];
  if (!n->output_count || n->output_count > ECT_MAX_ARGS)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "no results, or too many");
  EC_BACKEND_TRY(find_block(g, n, 0, &then));
  EC_BACKEND_TRY(find_block(g, n, 1, &otherwise));
  EC_BACKEND_TRY(ets_tensor(g, n, 0, &condition));
  EC_BACKEND_TRY(ets_define_results(g, n, outs));
  const size_t skip = ect_add_jump(p, condition);
  EC_BACKEND_TRY(call_branch(g, n, then, outs));
  const size_t leave = ect_add_leave(p);
  ect_set_target(p, skip);
  EC_BACKEND_TRY(call_branch(g, n, otherwise, outs));
  ect_set_target(p, leave);
  return EC_BACKEND_OK;
}

/* ---- WHILE_LOOP ------------------------------------------------------------------------------ */

/* Copies a tensor to another one of its kind. */
static int64_t copy_tensor(ets_graph *g, int64_t from) {
  ect_program *p = &g->program;
  if (p->failed) return from;
  const ect_tensor t = *ect_tensor_at(p, from);
  const int64_t to = ect_add_like(p, &t, t.dtype);
  ect_add_copy(p, from, to, NULL);
  return to;
}

/* Gives the values of the next round to the tensors that carry them. One that is the old value of
 * another is copied before that is written. */
static void carry(ets_graph *g, uint32_t count, int64_t *next, const int64_t *carried) {
  for (uint32_t i = 0; i < count; i++) {
    bool is_old = false;
    for (uint32_t k = 0; k < count; k++) is_old |= next[i] == carried[k];
    if (is_old && next[i] != carried[i]) next[i] = copy_tensor(g, next[i]);
  }
  for (uint32_t i = 0; i < count; i++)
    if (next[i] != carried[i]) ect_add_copy(&g->program, next[i], carried[i], NULL);
}

/* Copies the node's inputs to tensors that the rounds write. */
static uint32_t begin_loop(ets_graph *g, const ets_node *n, int64_t *carried) {
  if (!n->output_count || n->output_count > ECT_MAX_ARGS || n->input_count != n->output_count)
    return ets_refuse(g, n, EC_BACKEND_INVALID_PROGRAM, "other results than inputs, or too many");
  if (g->loop_count++ == ETS_MOST_LOOPS)
    return ets_refuse(g, n, EC_BACKEND_NOT_SUPPORTED, "more than 256 loops");
  for (uint32_t i = 0; i < n->input_count; i++) {
    int64_t from;
    EC_BACKEND_TRY(ets_tensor(g, n, i, &from));
    carried[i] = copy_tensor(g, from);
  }
  return EC_BACKEND_OK;
}

uint32_t ets_call_while_loop(ets_graph *g, const ets_node *n) {
  ect_program *p = &g->program;
  ets_block *test, *body;
  int64_t goes_on, carried[ECT_MAX_ARGS], next[ECT_MAX_ARGS];
  EC_BACKEND_TRY(find_block(g, n, 0, &test));
  EC_BACKEND_TRY(find_block(g, n, 1, &body));
  EC_BACKEND_TRY(begin_loop(g, n, carried));
  const size_t first = p->call_count;
  EC_BACKEND_TRY(call_block(g, n, test, 0, carried, 1, &goes_on));
  const size_t leave = ect_add_jump(p, goes_on);
  EC_BACKEND_TRY(call_block(g, n, body, 0, carried, n->output_count, next));
  carry(g, n->output_count, next, carried);
  ect_add_loop(p, first);
  ect_set_target(p, leave);
  EC_BACKEND_TRY(ets_define_results(g, n, next));
  copy_results(g, n, carried, next);
  return EC_BACKEND_OK;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* Translates the inputs or outputs of a block. */
static uint32_t add_border(ets_graph *g, const ets_block *b, bool outputs) {
  const ets_node border = {.op = outputs ? ETS_IDENTITY : ETS_CONST, .number = UINT32_MAX,
                           .first = b->first + (outputs ? b->input_count : 0),
                           .input_count = outputs ? b->output_count : b->input_count};
  for (uint32_t i = 0; i < border.input_count; i++) {
    int64_t id;
    ets_value *v = &g->values[ets_inputs(g, &border)[i]];
    if (!outputs && (v->is_defined || v->data))
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                             "input %u of the block is a constant or another input", (unsigned)i);
    if (!outputs) v->is_defined = true;
    EC_BACKEND_TRY(ets_tensor(g, &border, i, &id));
    if (outputs) ect_add_output(&g->program, id);
    else ect_add_input(&g->program, id, false);
  }
  return EC_BACKEND_OK;
}

uint32_t ets_translate(void *graph) {
  ets_graph *g = graph;
  const ets_block *b = &g->blocks[0];
  g->blocks[0].is_used = true;
  EC_BACKEND_TRY(add_border(g, b, false));
  EC_BACKEND_TRY(translate_block(g, b));
  return add_border(g, b, true);
}
