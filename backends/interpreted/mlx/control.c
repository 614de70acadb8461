/* Ints that tensors have, choices and loops. */
#include "../control.h"

#include "../rows.h"
#include "special.h"

uint32_t emx_call_noop(const emx_call *c) {
  (void)c;
  return EC_BACKEND_OK;
}

uint32_t emx_call_sym_size(const emx_call *c) {
  const uint32_t result = ect_outputs(c->g, c->n)[0].operand;
  int64_t args[3];
  uint32_t axis;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "a", &args[0], &t));
  EC_BACKEND_TRY(emx_axis(c, "dim", t.rank, &axis));
  args[1] = ect_add_int(&c->g->program, axis);
  EC_BACKEND_TRY(ect_use(c->g, result, &args[2]));
  c->g->operands[result].sizes[0] = t.sizes[axis];
  ect_add_call(&c->g->program, "aten::sym_size.int", args, 3, c->shown);
  return EC_BACKEND_OK;
}

uint32_t emx_call_item(const emx_call *c) {
  const uint32_t result = ect_outputs(c->g, c->n)[0].operand;
  int64_t args[2];
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  args[0] = ect_convert(&c->g->program, args[0], EC_DTYPE_INT64);
  EC_BACKEND_TRY(ect_use(c->g, result, &args[1]));
  ect_add_call(&c->g->program, "aten::_local_scalar_dense", args, 2, c->shown);
  return EC_BACKEND_OK;
}

/* ---- a choice -------------------------------------------------------------------------------- */

uint32_t emx_call_if(const emx_call *c) {
  ect_program *p = &c->g->program;
  const ect_link *links = ect_inputs(c->g, c->n);
  int64_t args[3], bound;
  bool is_literal;
  EC_BACKEND_TRY(emx_int(c, "cond", &args[0], &bound, &is_literal));
  args[1] = ect_add_int(p, 0);
  args[2] = ect_add_bool(p, false);
  ect_add_call(p, "executorch_prim::eq.Scalar", args, 3, NULL); /* true: the second branch */
  const uint32_t blocks[] = {c->g->operands[links[2].operand].first,
                             c->g->operands[links[1].operand].first};
  return ect_call_cond(c->g, c->n, args[2], blocks, 0, 0);
}

/* ---- a loop ---------------------------------------------------------------------------------- */

/* A ScanNode: slices of `originals` along an axis, one for each round. */
typedef struct scan {
  const emx_call *c;
  uint32_t slice_count, carry_count, result_count;
  int64_t axis, round, rounds; /* values */
  int64_t carried[ECT_MAX_ARGS];
  ect_block body;
} scan;

static uint32_t read_scan(const emx_call *c, scan *s) {
  const ect_link *links = ect_inputs(c->g, c->n);
  int64_t value;
  uint32_t axis;
  ect_tensor t;
  *s = (scan){.c = c};
  s->body = c->g->blocks[c->g->operands[emx_find(c, "body")].first];
  for (uint32_t i = 0; i < c->n->input_count; i++) {
    s->slice_count += ect_text_is(links[i].name, "originals");
    s->carry_count += ect_text_is(links[i].name, "carry");
  }
  s->result_count = c->n->output_count - s->carry_count;
  if (s->carry_count > ECT_MAX_ARGS) return EMX_REFUSE(c, "too many carried tensors");
  EC_BACKEND_TRY(ect_use_tensor(c->g, links[0].operand, &value, &t));
  EC_BACKEND_TRY(emx_axis(c, "scan_axis", t.rank, &axis));
  s->axis = ect_add_int(&c->g->program, axis);
  s->round = ect_add_int(&c->g->program, 0);
  s->rounds = ect_add_int(&c->g->program, 0);
  const int64_t size[] = {value, s->axis, s->rounds};
  const int64_t zero = ect_add_int(&c->g->program, 0);
  const int64_t begin[] = {zero, zero, s->round};
  ect_add_call(&c->g->program, "aten::sym_size.int", size, 3, NULL);
  ect_add_call(&c->g->program, "executorch_prim::add.Scalar", begin, 3, NULL);
  return EC_BACKEND_OK;
}

/* Makes an operand of the body a value that is there. */
static void set_operand(ect_graph *g, uint32_t operand, const ect_tensor *t, int64_t value) {
  emx_set_type(g, operand, t);
  g->operands[operand].id = value;
  g->operands[operand].is_defined = true;
}

/* Copies what rounds carry to tensors of their own. */
static uint32_t begin_carry(scan *s) {
  ect_graph *g = s->c->g;
  for (uint32_t i = 0; i < s->carry_count; i++) {
    int64_t value;
    ect_tensor t;
    const uint32_t from = ect_inputs(g, s->c->n)[s->slice_count + i].operand;
    EC_BACKEND_TRY(ect_use_tensor(g, from, &value, &t));
    const int32_t dtype = t.dtype;
    for (uint32_t d = 0; d < t.rank; d++) t.sizes[d] = -1;
    EC_BACKEND_TRY(emx_helper(s->c, "aten::clone.out", &value, 1, &t, &s->carried[i]));
    t.dtype = dtype;
    set_operand(g, g->links[s->body.first_input + s->slice_count + i].operand, &t, s->carried[i]);
  }
  return EC_BACKEND_OK;
}

/* Adds an empty tensor for what the rounds compute: its rank follows from the body alone, so that
 * the call is added before the loop with the results of a round. */
static uint32_t add_slices(scan *s) {
  ect_graph *g = s->c->g;
  for (uint32_t i = 0; i < s->slice_count; i++) {
    const uint32_t operand = g->links[s->body.first_input + i].operand;
    int64_t x, value;
    ect_tensor t;
    EC_BACKEND_TRY(ect_use_tensor(g, ect_inputs(g, s->c->n)[i].operand, &x, &t));
    if (!t.rank) return EMX_INVALID(s->c, "an original has no dimensions");
    t.rank--;
    for (uint32_t d = 0; d < t.rank; d++) t.sizes[d] = -1;
    const int64_t args[] = {x, s->axis, s->round};
    EC_BACKEND_TRY(emx_helper(s->c, "aten::select_copy.int_out", args, 3, &t, &value));
    set_operand(g, operand, &t, value);
  }
  return EC_BACKEND_OK;
}

/* Stores the results of a round. */
static uint32_t store_results(scan *s) {
  ect_graph *g = s->c->g;
  for (uint32_t i = 0; i < s->result_count; i++) {
    const uint32_t result = ect_outputs(g, s->c->n)[i].operand;
    int64_t value, out;
    ect_tensor t;
    EC_BACKEND_TRY(ect_use_tensor(g, g->links[s->body.first_output + i].operand, &value, &t));
    if (t.rank == ECT_MAX_RANK) return EMX_REFUSE(s->c, "more than %d dimensions", ECT_MAX_RANK);
    t.rank++;
    for (uint32_t d = 0; d < t.rank; d++) t.sizes[d] = -1;
    emx_set_type(g, result, &t);
    EC_BACKEND_TRY(ect_use(g, result, &out));
    const int64_t args[] = {value, s->round, s->rounds, s->axis};
    EC_BACKEND_TRY(ect_call_op(g, "mlx::store.out", args, 4, &out, 1, NULL));
  }
  return EC_BACKEND_OK;
}

/* Copies what a round computes to what the next one reads: all are read before one is written. */
static uint32_t keep_carry(scan *s) {
  ect_graph *g = s->c->g;
  int64_t next[ECT_MAX_ARGS];
  for (uint32_t i = 0; i < s->carry_count; i++) {
    int64_t value;
    ect_tensor t;
    const uint32_t from = g->links[s->body.first_output + s->result_count + i].operand;
    EC_BACKEND_TRY(ect_use_tensor(g, from, &value, &t));
    if (t.rank != ect_tensor_at(&g->program, s->carried[i])->rank)
      return EMX_INVALID(s->c, "a carried tensor changes its rank");
    EC_BACKEND_TRY(emx_helper(s->c, "aten::clone.out", &value, 1, &t, &next[i]));
  }
  for (uint32_t i = 0; i < s->carry_count; i++)
    ect_add_copy(&g->program, next[i], s->carried[i], NULL);
  return EC_BACKEND_OK;
}

static uint32_t add_body(scan *s) {
  ect_graph *g = s->c->g;
  const uint32_t block = g->operands[emx_find(s->c, "body")].first;
  if (g->depth == ECT_MAX_DEPTH || g->loop_count++ == ECT_MAX_LOOPS)
    return EMX_REFUSE(s->c, "more than 64 blocks inside each other, or 256 loops");
  EC_BACKEND_TRY(add_slices(s));
  g->depth++;
  EC_BACKEND_TRY(ect_translate_block(g, block, s->c->n));
  g->depth--;
  EC_BACKEND_TRY(store_results(s));
  return keep_carry(s);
}

/* The last call of a scan has the node's name. */
static uint32_t finish_scan(scan *s) {
  ect_graph *g = s->c->g;
  for (uint32_t i = 0; i < s->carry_count; i++) {
    const uint32_t result = ect_outputs(g, s->c->n)[s->result_count + i].operand;
    const bool is_last = i + 1 == s->carry_count;
    int64_t out;
    const ect_tensor t = *ect_tensor_at(&g->program, s->carried[i]);
    emx_set_type(g, result, &t);
    EC_BACKEND_TRY(ect_use(g, result, &out));
    EC_BACKEND_TRY(ect_call_op(g, "aten::clone.out", &s->carried[i], 1, &out, 1,
                               is_last ? s->c->shown : NULL));
  }
  return EC_BACKEND_OK;
}

uint32_t emx_call_scan(const emx_call *c) {
  ect_program *p = &c->g->program;
  scan s;
  EC_BACKEND_TRY(read_scan(c, &s));
  EC_BACKEND_TRY(begin_carry(&s));
  if (p->failed) return ect_refuse(c->g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  const size_t first = p->call_count;
  const int64_t test[] = {s.round, s.rounds, ect_add_bool(p, false)};
  ect_add_call(p, "executorch_prim::lt.Scalar", test, 3, NULL);
  const size_t leave = ect_add_jump(p, test[2]);
  EC_BACKEND_TRY(add_body(&s));
  const int64_t step[] = {s.round, ect_add_int(p, 1), s.round};
  ect_add_call(p, "executorch_prim::add.Scalar", step, 3, NULL);
  ect_add_loop(p, first);
  ect_set_target(p, leave);
  return finish_scan(&s);
}
