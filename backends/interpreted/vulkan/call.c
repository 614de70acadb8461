/* Calls: a row of operators.def for each, and the conversions that the row asks for. */
#include "call.h"

#include <stdio.h>
#include <string.h>

#include "../pack.h"
#include "../rows.h"
#include "../translate.h"
#include "special.h"

enum { MAX_ITEMS = 64 /* of a list that is searched for a result */ };

static const ect_row rows[] = {
#include "operators.def"
};

static uint32_t result_of(const ect_graph *g, const ect_node *n) {
  return ect_outputs(g, n)[0].operand;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* Marks the values that a call writes. */
static void mark_results(ect_graph *g, const ect_node *n, const ect_row *r) {
  ect_operand *result = &g->operands[result_of(g, n)];
  result->is_state = true;
  for (uint32_t i = 0; r && r->args && i < n->input_count && r->args[i]; i++)
    if (r->args[i] == 'w') g->operands[ect_inputs(g, n)[i].operand].is_state = true;
  for (uint32_t i = 0; i < result->count && i < MAX_ITEMS; i++)
    g->operands[g->items[result->first + i]].is_state = true;
}

/* Gives a prepacked value its constant; the call is then none. */
static void mark_prepacked(ect_graph *g, ect_node *n) {
  if (n->input_count != 1) return;
  const ect_operand *from = &g->operands[ect_inputs(g, n)[0].operand];
  ect_operand *to = &g->operands[result_of(g, n)];
  if (from->kind != ECT_TENSOR || to->kind != ECT_TENSOR || from->group == ECT_ABSENT) return;
  if (to->group == ECT_ABSENT) to->group = from->group;
  n->shown = NULL;
}

void ecv_find_state(ect_graph *g) {
  for (size_t i = 0; i < g->node_count; i++) {
    ect_node *n = &g->nodes[i];
    const ect_row *r = ECT_FIND_ROW(rows, n->op);
    if (r && r->special == (ect_function *)ecv_call_prepack) mark_prepacked(g, n);
    else mark_results(g, n, r);
    if (r && r->special == (ect_function *)ecv_call_nothing) n->shown = NULL;
  }
  for (size_t i = 0; i < g->operand_count; i++) {
    ect_operand *o = &g->operands[i];
    o->is_state &= o->group != ECT_ABSENT;
    /* Integers of 8 bits that are computed are quantised values. */
    if (o->scalar_type == EC_DTYPE_INT8 && (o->is_state || o->group == ECT_ABSENT))
      o->dtype_name = "qint8";
  }
}

/* ---- one call -------------------------------------------------------------------------------- */

typedef struct packing {
  ect_graph *g;
  const ect_node *n;
  const ect_row *row;
  int64_t args[ECT_MAX_ARGS], outs[ECT_MAX_ARGS];
  uint32_t results[ECT_MAX_ARGS]; /* operands of `outs` */
  size_t arg_count, out_count;
  int64_t copies[ECT_MAX_ARGS][2]; /* from, to: results that are converted */
  size_t copy_count;
} packing;

static uint32_t read_item(void *user, const ect_item *item, int64_t *out) {
  const packing *k = user;
  ect_graph *g = k->g;
  *out = ECT_NO_VALUE;
  if (item->index >= k->n->input_count) return EC_BACKEND_OK; /* refused below */
  if (item->letter != 'O' && item->letter != 'I')
    return ect_use(g, ect_inputs(g, k->n)[item->index].operand, out);
  const uint32_t of = item->letter == 'O' ? result_of(g, k->n) : ect_inputs(g, k->n)[0].operand;
  *out = ect_add_int(&g->program, g->operands[of].scalar_type);
  return EC_BACKEND_OK;
}

static uint32_t read_arguments(packing *k) {
  char plain[ECT_MAX_ARGS + 1];
  const uint32_t count = k->n->input_count;
  uint32_t taken;
  memset(plain, '=', sizeof plain);
  plain[count < ECT_MAX_ARGS ? count : ECT_MAX_ARGS] = '\0';
  EC_BACKEND_TRY(ect_read_items(&k->g->program, k->row->args ? k->row->args : plain, NULL,
                                read_item, k, k->args, &k->arg_count, &taken));
  return taken == count ? (uint32_t)EC_BACKEND_OK
                        : ect_refuse_as(k->g, EC_BACKEND_INVALID_PROGRAM,
                                        " has %u arguments, expected %u", (unsigned)count,
                                        (unsigned)taken);
}

/* True if the operand is an argument of the call, too: it is then computed into other memory. */
static bool is_argument(const packing *k, uint32_t operand) {
  const ect_graph *g = k->g;
  for (uint32_t i = 0; i < k->n->input_count; i++) {
    const ect_operand *o = &g->operands[ect_inputs(g, k->n)[i].operand];
    if (ect_inputs(g, k->n)[i].operand == operand) return true;
    for (uint32_t item = 0; item < o->count && item < MAX_ITEMS; item++)
      if (g->items[o->first + item] == operand) return true;
  }
  return false;
}

static bool is_written_argument(const packing *k, uint32_t operand) {
  for (uint32_t i = 0; k->row->args && i < k->n->input_count && k->row->args[i]; i++)
    if (k->row->args[i] == 'w' && ect_inputs(k->g, k->n)[i].operand == operand) return true;
  return false;
}

static uint32_t add_result(packing *k, uint32_t operand) {
  int64_t value;
  ect_tensor t;
  ect_graph *g = k->g;
  if (k->out_count == ECT_MAX_ARGS)
    return ect_refuse_as(g, EC_BACKEND_NOT_SUPPORTED, " has more than %d results", ECT_MAX_ARGS);
  EC_BACKEND_TRY(ect_use_tensor(g, operand, &value, &t));
  for (size_t i = 0; i < k->out_count; i++)
    if (k->results[i] == operand)
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "value %u is two of its results",
                        (unsigned)operand);
  k->results[k->out_count] = operand;
  const char *letters = k->row->results;
  const char letter = letters && strlen(letters) > k->out_count ? letters[k->out_count] : '=';
  const int32_t wanted = ect_letter_dtype(letter, t.dtype);
  if (wanted == t.dtype && !is_argument(k, operand)) {
    k->outs[k->out_count++] = value;
    return EC_BACKEND_OK;
  }
  const int64_t computed = ect_add_like(&g->program, &t, wanted);
  k->outs[k->out_count++] = computed;
  if (is_written_argument(k, operand)) return EC_BACKEND_OK; /* it has its new value already */
  k->copies[k->copy_count][0] = computed;
  k->copies[k->copy_count++][1] = value;
  return EC_BACKEND_OK;
}

static uint32_t add_results(packing *k) {
  const uint32_t result = result_of(k->g, k->n);
  const ect_operand *o = &k->g->operands[result];
  if (k->row->results && k->row->results[0] == 'L') {
    k->out_count = 1;
    return ect_use(k->g, result, &k->outs[0]);
  }
  if (o->kind == ECT_TENSOR || !o->source) return add_result(k, result);
  for (uint32_t i = 0; i < o->count; i++)
    EC_BACKEND_TRY(add_result(k, k->g->items[o->first + i]));
  return EC_BACKEND_OK;
}

static uint32_t call_operator(packing *k) {
  ec_backend_node node;
  EC_BACKEND_TRY(read_arguments(k));
  EC_BACKEND_TRY(add_results(k));
  EC_BACKEND_TRY(ect_call_op(k->g, k->row->op, k->args, k->arg_count, k->outs, k->out_count,
                             ect_shown(k->g, k->n, &node)));
  for (size_t i = 0; i < k->copy_count; i++)
    ect_add_copy(&k->g->program, k->copies[i][0], k->copies[i][1], NULL);
  return EC_BACKEND_OK;
}

/* An operator on numbers: its result is the last argument. */
static uint32_t call_number(packing *k) {
  ec_backend_node node;
  EC_BACKEND_TRY(ecv_use_all(k->g, k->n, 3, k->args));
  ect_add_call(&k->g->program, k->row->op, k->args, 3, ect_shown(k->g, k->n, &node));
  return EC_BACKEND_OK;
}

uint32_t ecv_translate(ect_graph *g, const ect_node *n) {
  packing k = {.g = g, .n = n, .row = ECT_FIND_ROW(rows, n->op)};
  if (!k.row) return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "the operator is not known here");
  switch ((ect_row_kind)k.row->kind) {
  case ECT_ROW_NUMBER: return call_number(&k);
  case ECT_ROW_OP: return call_operator(&k);
  case ECT_ROW_LATER:
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "operators of training are not supported");
  default: return ((ecv_special *)k.row->special)(g, n);
  }
}

void ecv_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size) {
  (void)g;
  snprintf(out, size, "node %u (%.*s)", (unsigned)n->number, ECT_CLIP(n->op, 120));
}
