/* Calls: a row of operators.def for each, and the conversions that the row asks for. */
#include "call.h"

#include <stdio.h>
#include <string.h>

#include "../pack.h"
#include "../rows.h"
#include "fields.h"
#include "special.h"

enum { TEXT = 200 };

static const ect_row rows[] = {
#include "operators.def"
};

static const ect_row *find_row(const char *name) {
  return ECT_FIND_ROW(rows, ((ect_text){(const uint8_t *)name, strlen(name)}));
}

static int64_t result_of(const ecv_node *node) {
  return ec_fb_vec_i32(node->args, node->args.count - 1);
}

/* ---- state ----------------------------------------------------------------------------------- */

static void mark(const ecv_graph *g, uint8_t *marks, int64_t id) {
  if (ecv_value_type(&g->payload, id)) marks[id] = 1;
}

/* Marks the values that a call writes. */
static void mark_results(const ecv_graph *g, uint8_t *marks, const ecv_node *node,
                         const ect_row *r) {
  const int64_t result = result_of(node);
  mark(g, marks, result);
  for (uint32_t i = 0; r && r->args && i + 1 < node->args.count && r->args[i]; i++)
    if (r->args[i] == 'w') mark(g, marks, ec_fb_vec_i32(node->args, i));
  if (ecv_value_type(&g->payload, result) != ECV_VALUE_LIST) return;
  const ec_fb_vec items =
      ec_fb_vector(ecv_value_table(&g->payload, result), ECV_ValueList_items);
  for (uint32_t i = 0; i < items.count && i < ECV_MOST_ITEMS; i++)
    mark(g, marks, ec_fb_vec_i32(items, i));
}

/* Remembers the constant of a prepacked value. */
static void mark_prepacked(ecv_graph *g, const ecv_node *node) {
  if (node->args.count != 2) return;
  const int64_t from = ec_fb_vec_i32(node->args, 0), to = ec_fb_vec_i32(node->args, 1);
  const ec_fb_table table = ecv_value_table(&g->payload, from);
  if (ecv_value_type(&g->payload, from) == ECV_TENSOR &&
      ecv_value_type(&g->payload, to) == ECV_TENSOR &&
      ec_fb_i32(table, ECV_VkTensor_constant_id) >= 0)
    g->sources[to] = from;
}

uint32_t ecv_find_state(ecv_graph *g) {
  for (uint32_t i = 0; i < g->payload.chain.count; i++) {
    const ecv_node node = ecv_node_at(&g->payload, i);
    if (!node.name || node.args.count == 0)
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "call %u has no %s", (unsigned)i,
                             node.name ? "values" : "name");
    const ect_row *r = find_row(node.name);
    if (r && r->special == (ect_function *)ecv_call_prepack) mark_prepacked(g, &node);
    else mark_results(g, g->written, &node, r);
  }
  return EC_BACKEND_OK;
}

bool ecv_is_run(const ecv_graph *g, const ecv_node *node) {
  const ect_row *r = find_row(node->name);
  if (!r || r->kind != ECT_ROW_SPECIAL) return true;
  if (r->special == (ect_function *)ecv_call_nothing) return false;
  return r->special != (ect_function *)ecv_call_prepack || node->args.count != 2 ||
         ecv_value_type(&g->payload, ec_fb_vec_i32(node->args, 1)) != ECV_TENSOR ||
         g->sources[ec_fb_vec_i32(node->args, 1)] < 0;
}

/* ---- one call -------------------------------------------------------------------------------- */

typedef struct packing {
  ecv_graph *g;
  const ecv_node *node;
  const ect_row *row;
  char what[TEXT]; /* the node, for messages */
  int64_t args[ECT_MAX_ARGS], outs[ECT_MAX_ARGS];
  int64_t results[ECT_MAX_ARGS]; /* ids of `outs` */
  size_t arg_count, out_count;
  int64_t copies[ECT_MAX_ARGS][2]; /* from, to: results that are converted */
  size_t copy_count;
} packing;

static int32_t dtype_of(ecv_graph *g, int64_t id) {
  const ec_fb_table table = ecv_value_table(&g->payload, id);
  return ecv_value_type(&g->payload, id) == ECV_TENSOR
             ? ecv_scalar_type(ec_fb_u8(table, ECV_VkTensor_datatype))
             : -1;
}

static uint32_t read_item(void *user, const ect_item *item, int64_t *out) {
  packing *k = user;
  const ec_fb_vec args = k->node->args;
  *out = ECT_NO_VALUE;
  if (item->index + 1 >= args.count) return EC_BACKEND_OK; /* refused below */
  if (item->letter != 'O' && item->letter != 'I')
    return ecv_value(k->g, ec_fb_vec_i32(args, item->index), out);
  const int64_t id = item->letter == 'O' ? result_of(k->node) : ec_fb_vec_i32(args, 0);
  *out = ect_add_int(&k->g->program, dtype_of(k->g, id));
  return EC_BACKEND_OK;
}

static uint32_t read_arguments(packing *k) {
  char plain[ECT_MAX_ARGS + 1];
  const uint32_t given = k->node->args.count - 1;
  uint32_t taken;
  memset(plain, '=', sizeof plain);
  plain[given < ECT_MAX_ARGS ? given : ECT_MAX_ARGS] = '\0';
  EC_BACKEND_TRY(ect_read_items(&k->g->program, k->row->args ? k->row->args : plain, NULL,
                                read_item, k, k->args, &k->arg_count, &taken));
  return taken == given ? (uint32_t)EC_BACKEND_OK
                        : EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_INVALID_PROGRAM,
                                          "%s has %u arguments, expected %u", k->what,
                                          (unsigned)given, (unsigned)taken);
}

/* True if the value is an argument of the call, too: it is then computed into other memory. */
static bool is_argument(const packing *k, int64_t id) {
  for (uint32_t i = 0; i + 1 < k->node->args.count; i++) {
    const int64_t arg = ec_fb_vec_i32(k->node->args, i);
    if (arg == id) return true;
    if (ecv_value_type(&k->g->payload, arg) != ECV_VALUE_LIST) continue;
    const ec_fb_vec items =
        ec_fb_vector(ecv_value_table(&k->g->payload, arg), ECV_ValueList_items);
    for (uint32_t n = 0; n < items.count && n < ECV_MOST_ITEMS; n++)
      if (ec_fb_vec_i32(items, n) == id) return true;
  }
  return false;
}

static bool is_written_argument(const packing *k, int64_t id) {
  for (uint32_t i = 0; k->row->args && i + 1 < k->node->args.count && k->row->args[i]; i++)
    if (k->row->args[i] == 'w' && ec_fb_vec_i32(k->node->args, i) == id) return true;
  return false;
}

static uint32_t add_result(packing *k, int64_t id) {
  int64_t value;
  const ect_tensor *t;
  ecv_graph *g = k->g;
  if (k->out_count == ECT_MAX_ARGS)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "%s has more than %d results", k->what,
                           ECT_MAX_ARGS);
  EC_BACKEND_TRY(ecv_tensor(g, id, &value, &t));
  for (size_t i = 0; i < k->out_count; i++)
    if (k->results[i] == id)
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                             "%s: value %d is two of its results", k->what, (int)id);
  k->results[k->out_count] = id;
  const char *letters = k->row->results;
  const char letter = letters && strlen(letters) > k->out_count ? letters[k->out_count] : '=';
  const int32_t dtype = t->dtype, wanted = ect_letter_dtype(letter, dtype);
  const bool aliased = is_argument(k, id);
  if (wanted == dtype && !aliased) {
    k->outs[k->out_count++] = value;
    return EC_BACKEND_OK;
  }
  const int64_t computed = ect_add_like(&g->program, t, wanted);
  k->outs[k->out_count++] = computed;
  if (is_written_argument(k, id)) return EC_BACKEND_OK; /* it has its new value already */
  k->copies[k->copy_count][0] = computed;
  k->copies[k->copy_count++][1] = value;
  return EC_BACKEND_OK;
}

static uint32_t add_results(packing *k) {
  const int64_t result = result_of(k->node);
  const uint8_t type = ecv_value_type(&k->g->payload, result);
  if (k->row->results && k->row->results[0] == 'L') {
    k->out_count = 1;
    return ecv_value(k->g, result, &k->outs[0]);
  }
  if (type != ECV_VALUE_LIST) return add_result(k, result);
  const ec_fb_vec items =
      ec_fb_vector(ecv_value_table(&k->g->payload, result), ECV_ValueList_items);
  for (uint32_t i = 0; i < items.count; i++) EC_BACKEND_TRY(add_result(k, ec_fb_vec_i32(items, i)));
  return EC_BACKEND_OK;
}

static uint32_t call_operator(packing *k) {
  const ec_backend_node name = {k->node->number, k->node->name, 0};
  EC_BACKEND_TRY(read_arguments(k));
  EC_BACKEND_TRY(add_results(k));
  EC_BACKEND_TRY(ect_pack_call(k->g->c.call, &k->g->program, k->row->op, k->args, k->arg_count,
                               k->outs, k->out_count, &name, k->what));
  for (size_t i = 0; i < k->copy_count; i++)
    ect_add_copy(&k->g->program, k->copies[i][0], k->copies[i][1], NULL);
  return EC_BACKEND_OK;
}

/* An operator on numbers: its result is the last argument. */
static uint32_t call_number(packing *k) {
  const ec_backend_node name = {k->node->number, k->node->name, 0};
  const size_t count = k->node->args.count;
  if (count != 3)
    return EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_INVALID_PROGRAM, "%s has %zu values, expected 3",
                           k->what, count);
  for (uint32_t i = 0; i < count; i++)
    EC_BACKEND_TRY(ecv_value(k->g, ec_fb_vec_i32(k->node->args, i), &k->args[i]));
  ect_add_call(&k->g->program, k->row->op, k->args, count, &name);
  return EC_BACKEND_OK;
}

static uint32_t call_row(packing *k) {
  switch ((ect_row_kind)k->row->kind) {
  case ECT_ROW_NUMBER: return call_number(k);
  case ECT_ROW_OP: return call_operator(k);
  case ECT_ROW_LATER:
    return EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_NOT_SUPPORTED,
                           "%s: operators of training are not supported", k->what);
  default: return ((ecv_special *)k->row->special)(k->g, k->node);
  }
}

uint32_t ecv_translate_call(ecv_graph *g, const ecv_node *node) {
  packing k = {.g = g, .node = node, .row = find_row(node->name)};
  snprintf(k.what, sizeof k.what, "node %u (%.120s)", (unsigned)node->number, node->name);
  ect_set_place(&g->program, "%s", k.what);
  if (!k.row)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "%s: the operator is not known here",
                           k.what);
  for (uint32_t i = 0; i + 1 < node->args.count; i++)
    EC_BACKEND_TRY(ecv_check_computed(g, ec_fb_vec_i32(node->args, i)));
  EC_BACKEND_TRY(call_row(&k));
  mark_results(g, g->computed, node, k.row);
  return EC_BACKEND_OK;
}
