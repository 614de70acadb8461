/* Operations: a row of operators.def for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pack.h"
#include "../rows.h"
#include "constexpr.h"
#include "special.h"
#include "translate.h"

enum { TYPE = 1, OUTPUTS = 3, ATTRIBUTES = 5, OPERATIONS = 3, MAX_STEPS = 8 };

static const ect_row rows[] = {
#include "operators.def"
};

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t read_item(void *node, const ect_item *item, int64_t *out) {
  ecm_node *n = node;
  char name[sizeof item->source];
  ect_program *p = &n->m->program;
  int64_t items[ECT_MAX_RANK];
  double number = 0;
  size_t count = 0;
  ecm_value *v;
  switch (item->letter) {
  case '=': return ecm_input(n, item->source, out);
  case '?':
    EC_BACKEND_TRY(ecm_argument(n, item->source, &v));
    *out = ECT_NO_VALUE;
    return v ? ecm_tensor(n->m, v, out) : (uint32_t)EC_BACKEND_OK;
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
  EC_BACKEND_TRY(ect_read_items(&n->m->program, r->args, NULL, read_item, n, args, &count, &taken));
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
    EC_BACKEND_TRY(ect_read_items(&n->m->program, at, results, read_item, n, args, &count, &taken));
    at = strchr(at, ';');
    if (!at) return ecm_finish(n, op, args, count);
    at += 2;
    const ect_tensor *first = as_argument ? ect_tensor_at(&n->m->program, args[0]) : NULL;
    const ect_tensor like = first ? *first : n->type.type;
    EC_BACKEND_TRY(ecm_step(n, op, args, count, &like, &results[i]));
  }
  return ecm_refuse(n, "too many steps");
}

static uint32_t call_operator(ecm_node *n, const ect_row *r) {
  if (r->kind == ECT_ROW_STEPS) return call_steps(n, r);
  return r->kind == ECT_ROW_OP ? call_row(n, r) : ((ecm_special *)r->special)(n);
}

static uint32_t read_const(ecm_node *n, ecm_value *out) {
  ecm_bytes content;
  if (!ecm_wire_entry(n->message, ATTRIBUTES, "val", &content))
    return ecm_refuse(n, "no attribute 'val'");
  return ecm_read_constant(n->m, content, out);
}

/* Translates an operation with one result. */
static uint32_t translate_result(ecm_node *n, const ect_row *r, ecm_bytes output) {
  ecm_field name, type;
  ecm_value *value = &n->type;
  if (!ecm_wire_find(output, 1, &name) || !ecm_wire_find(output, 2, &type))
    return ecm_refuse(n, "the result has no name or type");
  EC_BACKEND_TRY(ecm_read_type(n->m, type.bytes, value));
  if (ecm_bytes_equal(n->type_name, "const")) EC_BACKEND_TRY(read_const(n, value));
  else if (ecm_is_constexpr(n->type_name)) EC_BACKEND_TRY(ecm_constexpr(n, value));
  else if (!r) return ecm_refuse(n, "the operator is not supported");
  else {
    EC_BACKEND_TRY(ecm_tensor(n->m, value, &n->result));
    n->shown = (ec_backend_node){ect_names_find(&n->m->handles, name.bytes), r->name, 0};
    EC_BACKEND_TRY(call_operator(n, r));
  }
  return ecm_define(n->m, name.bytes, value);
}

static uint32_t translate_operation(ecm_model *m, ecm_bytes message) {
  ecm_node n = {.m = m, .message = message, .shown.debug_handle = UINT32_MAX};
  ecm_field type, output, name = {.bytes = {(const uint8_t *)"", 0}}, other;
  size_t outputs = 0;
  for (ecm_bytes rest = message; ecm_wire_next(&rest, &other);) outputs += other.number == OUTPUTS;
  if (!ecm_wire_check(message) || !ecm_wire_find(message, TYPE, &type))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                           "an operation of the MIL program has no type");
  if (outputs && ecm_wire_find(message, OUTPUTS, &output)) ecm_wire_find(output.bytes, 1, &name);
  n.type_name = type.bytes;
  snprintf(n.what, sizeof n.what, "%.*s (%.*s)",
           ecm_clip(name.bytes, 80), (const char *)name.bytes.data,
           ecm_clip(type.bytes, 40), (const char *)type.bytes.data);
  const ect_row *r = ECT_FIND_ROW(rows, type.bytes);
  if (r && r->kind == ECT_ROW_SEVERAL) {
    n.shown.name = r->name;
    return call_operator(&n, r);
  }
  if (ecm_is_constexpr(type.bytes) && outputs == 2) return ecm_constexpr_sparse(&n);
  if (outputs != 1) return ecm_refuse(&n, outputs ? "more than one result" : "no result");
  return translate_result(&n, r, output.bytes);
}

uint32_t ecm_translate(ecm_model *m, ecm_bytes block) {
  ecm_field field;
  while (ecm_wire_next(&block, &field))
    if (field.number == OPERATIONS) {
      EC_BACKEND_TRY(translate_operation(m, field.bytes));
      if (m->program.failed)
        return EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED,
                               "no memory for the MIL program");
    }
  return block.size
             ? EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                               "the MIL program's block ends with %zu unreadable bytes", block.size)
             : (uint32_t)EC_BACKEND_OK;
}
