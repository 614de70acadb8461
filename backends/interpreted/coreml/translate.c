/* Operations: a row of operators.def for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pack.h"
#include "../rows.h"
#include "constexpr.h"
#include "special.h"
#include "translate.h"

enum { MAX_STEPS = 8 };

static const ect_row rows[] = {
#include "operators.def"
};

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t read_item(void *node, const ect_item *item, int64_t *out) {
  ecm_node *n = node;
  char name[sizeof item->source];
  ect_program *p = &n->g->program;
  int64_t items[ECT_MAX_RANK];
  double number = 0;
  size_t count = 0;
  const ect_operand *v;
  switch (item->letter) {
  case '=': return ecm_input(n, item->source, out);
  case '?':
    EC_BACKEND_TRY(ecm_argument(n, item->source, &v));
    *out = ECT_NO_VALUE;
    return v ? ecm_use(n, v, out) : (uint32_t)EC_BACKEND_OK;
  case 'l':
    EC_BACKEND_TRY(ecm_numbers(n, item->source, items, ECT_MAX_RANK, &count));
    *out = ect_add_ints(p, items, count);
    return EC_BACKEND_OK;
  default:
    snprintf(name, sizeof name, "%.*s", (int)strcspn(item->source, ":"), item->source);
    number = item->source[strlen(name)] ? strtod(item->source + strlen(name) + 1, NULL) : 0;
    if (*name) EC_BACKEND_TRY(ecm_number(n, name, number, &number));
    *out = item->letter == 'f'   ? ect_add_double(p, number)
           : item->letter == 'b' ? ect_add_bool(p, number != 0)
                                 : ect_add_int(p, ecm_to_int(number));
  }
  return EC_BACKEND_OK;
}

static uint32_t call_row(ecm_node *n, const ect_row *r) {
  int64_t args[ECT_MAX_ARGS];
  size_t count;
  uint32_t taken;
  EC_BACKEND_TRY(ect_read_items(&n->g->program, r->args, NULL, read_item, n, args, &count, &taken));
  return ecm_finish(n, r->op, args, count);
}

static uint32_t call_steps(ecm_node *n, const ect_row *r) {
  int64_t args[ECT_MAX_ARGS], results[MAX_STEPS];
  const char *at = r->args;
  for (size_t i = 0; i < MAX_STEPS; i++) {
    char op[64];
    size_t count;
    uint32_t taken;
    const bool as_argument = *at == '<';
    const size_t size = strcspn(at, " ");
    snprintf(op, sizeof op, "%.*s", (int)(size - as_argument), at + as_argument);
    at += size + 1;
    EC_BACKEND_TRY(ect_read_items(&n->g->program, at, results, read_item, n, args, &count, &taken));
    at = strchr(at, ';');
    if (!at) return ecm_finish(n, op, args, count);
    at += 2;
    const ect_tensor *first = as_argument ? ect_tensor_at(&n->g->program, args[0]) : NULL;
    const ect_tensor like = first ? *first : n->type;
    EC_BACKEND_TRY(ecm_step(n, op, args, count, &like, &results[i]));
  }
  return ecm_refuse(n, "too many steps");
}

static uint32_t call_operator(ecm_node *n, const ect_row *r) {
  if (r->kind == ECT_ROW_STEPS) return call_steps(n, r);
  return r->kind == ECT_ROW_OP ? call_row(n, r) : ((ecm_special *)r->special)(n);
}

static uint32_t translate_result(ecm_node *n, const ect_row *r) {
  const uint32_t operand = ect_outputs(n->g, n->node)[0].operand;
  if (ecm_is_constexpr(n->node->op)) return ecm_constexpr(n, &n->g->operands[operand]);
  if (!r) return ecm_refuse(n, "the operator is not supported");
  EC_BACKEND_TRY(ect_use_tensor(n->g, operand, &n->result, &n->type));
  n->unknown = n->g->operands[operand].unknown;
  return call_operator(n, r);
}

uint32_t ecm_translate(ect_graph *g, const ect_node *node) {
  ecm_node n = {.g = g, .node = node};
  const ect_row *r = ECT_FIND_ROW(rows, node->op);
  n.name = r ? r->name : NULL;
  if (r && r->kind == ECT_ROW_SEVERAL) return call_operator(&n, r);
  if (ecm_is_constexpr(node->op) && node->output_count == 2) return ecm_constexpr_sparse(&n);
  if (node->output_count != 1)
    return ecm_refuse(&n, node->output_count ? "more than one result" : "no result");
  return translate_result(&n, r);
}

void ecm_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size) {
  const ect_text none = {(const uint8_t *)"", 0};
  const ect_text name =
      n->output_count ? g->operands[ect_outputs(g, n)[n->output_count - 1].operand].name : none;
  snprintf(out, size, "%.*s (%.*s)", ECT_CLIP(name, 80), ECT_CLIP(n->op, 40));
}
