/* Jumps around blocks, and back. */
#include "control.h"

#include <string.h>

#include "pack.h"
#include "translate.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Makes an operand of the node an input of its block; `id` is its number in the program. An input
 * without a kind takes the operand's. */
static uint32_t pass_input(ect_graph *g, uint32_t operand, uint32_t input, int64_t id) {
  const ect_operand *from = &g->operands[operand];
  ect_operand *to = &g->operands[input];
  const ect_text name = to->name;
  if (to->kind == ECT_NONE) {
    *to = *from;
    to->name = name;
  } else if (to->is_defined || to->data || to->dtype != from->dtype || to->rank != from->rank ||
             memcmp(to->sizes, from->sizes, from->rank * sizeof *to->sizes) != 0)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "an input of its block has another dtype or shape");
  to->id = id;
  to->is_defined = true;
  return EC_BACKEND_OK;
}

/* Translates a block with the operands of links from `first` on; `ids` are their numbers in the
 * program if other values stand for them. Those of its outputs are then in `outs`. */
static uint32_t call_block(ect_graph *g, const ect_node *n, uint32_t block, uint32_t first,
                           uint32_t count, const int64_t *ids, uint32_t out_count, int64_t *outs) {
  const ect_block b = g->blocks[block];
  ect_tensor t;
  if (b.input_count != count || b.output_count != out_count)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "its block has other inputs or outputs");
  if (g->depth == ECT_MAX_DEPTH)
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "more than 64 blocks inside each other");
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t operand = g->links[first + i].operand;
    int64_t id = ids ? ids[i] : ECT_NO_VALUE;
    if (!ids && g->operands[operand].kind != ECT_INT_LIST)
      EC_BACKEND_TRY(ect_use(g, operand, &id));
    EC_BACKEND_TRY(pass_input(g, operand, g->links[b.first_input + i].operand, id));
  }
  g->depth++;
  EC_BACKEND_TRY(ect_translate_block(g, block, n));
  g->depth--;
  for (uint32_t i = 0; i < out_count; i++) {
    const uint32_t operand = g->links[b.first_output + i].operand;
    EC_BACKEND_TRY(ect_check_defined(g, operand));
    EC_BACKEND_TRY(ect_use_tensor(g, operand, &outs[i], &t));
  }
  return EC_BACKEND_OK;
}

/* Gives a result without a dtype that of the first block's output. Its sizes are unknown: those of
 * the other block may differ. */
static void adopt_type(ect_graph *g, uint32_t operand, const ect_tensor *t) {
  ect_operand *o = &g->operands[operand];
  if (!t || o->kind != ECT_TENSOR || o->scalar_type >= 0 || o->fault) return;
  o->scalar_type = t->dtype;
  o->rank = o->unknown = t->rank;
  o->is_dynamic = true;
  for (uint32_t d = 0; d < t->rank; d++) o->sizes[d] = -1;
}

/* Copies values to the node's results, which a trace shows in its place. */
static uint32_t copy_results(ect_graph *g, const ect_node *n, const int64_t *from) {
  ec_backend_node node;
  const ec_backend_node *shown = ect_shown(g, n, &node);
  for (uint32_t i = 0; i < n->output_count && !g->program.failed; i++) {
    ect_tensor t;
    int64_t to;
    const ect_tensor *result = ect_tensor_at(&g->program, from[i]);
    adopt_type(g, ect_outputs(g, n)[i].operand, result);
    EC_BACKEND_TRY(ect_use_tensor(g, ect_outputs(g, n)[i].operand, &to, &t));
    result = ect_tensor_at(&g->program, from[i]);
    if (!result || result->dtype != t.dtype)
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                        "an output of its block has another dtype than the result");
    ect_add_copy(&g->program, from[i], to, i + 1 == n->output_count ? shown : NULL);
  }
  return EC_BACKEND_OK;
}

static uint32_t check_results(ect_graph *g, const ect_node *n) {
  return n->output_count && n->output_count <= ECT_MAX_ARGS
             ? (uint32_t)EC_BACKEND_OK
             : ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "it has no results, or too many");
}

/* ---- a choice -------------------------------------------------------------------------------- */

uint32_t ect_call_cond(ect_graph *g, const ect_node *n, int64_t condition, const uint32_t blocks[2],
                       uint32_t first, uint32_t count) {
  ect_program *p = &g->program;
  int64_t outs[ECT_MAX_ARGS];
  size_t jump = ect_add_jump(p, condition);
  EC_BACKEND_TRY(check_results(g, n));
  for (size_t i = 0; i < 2; i++) {
    EC_BACKEND_TRY(call_block(g, n, blocks[i], first, count, NULL, n->output_count, outs));
    EC_BACKEND_TRY(copy_results(g, n, outs));
    const size_t leave = i ? 0 : ect_add_leave(p);
    ect_set_target(p, jump);
    jump = leave;
  }
  return EC_BACKEND_OK;
}

/* ---- a loop ---------------------------------------------------------------------------------- */

/* Copies a tensor to another one of its kind. */
static int64_t copy_tensor(ect_graph *g, int64_t from) {
  ect_program *p = &g->program;
  if (p->failed) return from;
  const ect_tensor t = *ect_tensor_at(p, from);
  const int64_t to = ect_add_like(p, &t, t.dtype);
  ect_add_copy(p, from, to, NULL);
  return to;
}

/* Gives the values of the next round to the tensors that carry them. One that is the old value of
 * another is copied before that is written. */
static void carry(ect_graph *g, uint32_t count, int64_t *next, const int64_t *carried) {
  for (uint32_t i = 0; i < count; i++) {
    bool is_old = false;
    for (uint32_t k = 0; k < count; k++) is_old |= next[i] == carried[k];
    if (is_old && next[i] != carried[i]) next[i] = copy_tensor(g, next[i]);
  }
  for (uint32_t i = 0; i < count; i++)
    if (next[i] != carried[i]) ect_add_copy(&g->program, next[i], carried[i], NULL);
}

/* Copies the node's inputs to tensors that the rounds write. */
static uint32_t begin_loop(ect_graph *g, const ect_node *n, int64_t *carried) {
  EC_BACKEND_TRY(check_results(g, n));
  if (n->input_count != n->output_count)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "other results than inputs");
  if (g->loop_count++ == ECT_MAX_LOOPS)
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "more than 256 loops");
  for (uint32_t i = 0; i < n->input_count; i++) {
    ect_tensor t;
    int64_t from;
    EC_BACKEND_TRY(ect_use_tensor(g, ect_inputs(g, n)[i].operand, &from, &t));
    carried[i] = copy_tensor(g, from);
  }
  return EC_BACKEND_OK;
}

uint32_t ect_call_while(ect_graph *g, const ect_node *n, const uint32_t blocks[2]) {
  ect_program *p = &g->program;
  const uint32_t count = n->input_count;
  int64_t goes_on, carried[ECT_MAX_ARGS], next[ECT_MAX_ARGS];
  EC_BACKEND_TRY(begin_loop(g, n, carried));
  const size_t first = p->call_count;
  EC_BACKEND_TRY(call_block(g, n, blocks[0], n->first, count, carried, 1, &goes_on));
  const size_t leave = ect_add_jump(p, goes_on);
  EC_BACKEND_TRY(call_block(g, n, blocks[1], n->first, count, carried, count, next));
  carry(g, count, next, carried);
  ect_add_loop(p, first);
  ect_set_target(p, leave);
  return copy_results(g, n, carried);
}
