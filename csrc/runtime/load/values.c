/* Values: rows of the file become native slots; list items become pointers to slots. */
#include "runtime/load/values.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/load/cost.h"
#include "runtime/load/tensor.h"

/* ---- lists ------------------------------------------------------------------------------- */

static ec_status load_bools(ec_method *m, ec_fb_vec items, ec_value *value, ec_error *err) {
  bool *bools;
  EC_TRY(ec_arena_array(&m->arena, items.count, sizeof *bools, "a BoolList", &bools, err));
  for (uint32_t i = 0; i < items.count; i++) bools[i] = items.items[i] != 0;
  value->as.bools = bools;
  return EC_OK;
}

static ec_status load_doubles(ec_method *m, ec_fb_vec items, ec_value *value, ec_error *err) {
  double *doubles;
  EC_TRY(ec_arena_array(&m->arena, items.count, sizeof *doubles, "a DoubleList", &doubles, err));
  for (uint32_t i = 0; i < items.count; i++) doubles[i] = ec_fb_vec_f64(items, i);
  value->as.doubles = doubles;
  return EC_OK;
}

static ec_value none_item; /* item -1 of an OptionalTensorList; never written */

static ec_status load_items(ec_method *m, const ec_value_row *row, ec_value *value,
                            ec_error *err) {
  EC_TRY(ec_arena_array(&m->arena, value->count, sizeof *value->as.items, "a list",
                        &value->as.items, err));
  for (uint32_t i = 0; i < value->count; i++) {
    const int64_t index = ec_row_item(row, i);
    value->as.items[i] = index == -1 ? &none_item : &m->values[index];
  }
  return EC_OK;
}

static ec_status load_list(ec_method *m, const ec_value_row *row, ec_value *value, ec_error *err) {
  value->count = row->items.count;
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * (uint64_t)value->count, err));
  if (value->kind == EC_KIND_BOOL_LIST) return load_bools(m, row->items, value, err);
  if (value->kind == EC_KIND_DOUBLE_LIST) return load_doubles(m, row->items, value, err);
  return load_items(m, row, value, err);
}

static bool is_item_of(ec_kind list, const ec_value *item) {
  if (list == EC_KIND_INT_LIST) return ec_is_number(item);
  return item->kind == EC_KIND_TENSOR ||
         (list == EC_KIND_OPTIONAL_TENSOR_LIST && item->kind == EC_KIND_NONE);
}

/* Checks the kinds of list items, after all values have theirs. */
static ec_status check_items(const ec_method *m, const ec_value *list, ec_error *err) {
  const ec_kind kind = (ec_kind)list->kind;
  if (kind <= EC_KIND_DOUBLE_LIST) return EC_OK;
  for (uint32_t i = 0; i < list->count; i++) {
    const ec_value *item = list->as.items[i];
    if (!is_item_of(kind, item))
      return ec_fail(err, EC_INVALID_PROGRAM, "%s item %u is value %td, a %s", ec_kind_name(kind),
                     i, item - m->values, ec_kind_name((ec_kind)item->kind));
  }
  return EC_OK;
}

/* ---- values ------------------------------------------------------------------------------ */

static ec_status load_tensor(ec_method *m, const ec_value_row *row, ec_value *value,
                             ec_error *err) {
  const size_t at = m->tensor_count++;
  const char *name = row->info.tensor.name;
  value->as.tensor = &m->tensors[at];
  if (name) m->attributes[m->attribute_count++] = (ec_attribute){name, &m->tensors[at]};
  m->placements[at].named = name != NULL;
  return ec_load_tensor(m, row, &m->tensors[at], &m->placements[at], err);
}

static ec_status load_value(ec_method *m, const ec_rows *rows, uint32_t index, ec_error *err) {
  ec_value_row row;
  ec_value *value = &m->values[index];
  EC_TRY(ec_decode_value(rows, index, &row, err));
  value->kind = (uint32_t)row.info.kind;
  switch (row.info.kind) {
  case EC_KIND_NONE: return EC_OK;
  case EC_KIND_INT: value->as.i = row.info.scalar.as.i; return EC_OK;
  case EC_KIND_BOOL: value->as.b = row.info.scalar.as.b; return EC_OK;
  case EC_KIND_DOUBLE: value->as.d = row.info.scalar.as.d; return EC_OK;
  case EC_KIND_STRING:
    value->as.string = row.info.string;
    value->count = (uint32_t)strlen(row.info.string);
    return EC_OK;
  case EC_KIND_TENSOR: return load_tensor(m, &row, value, err);
  default: return load_list(m, &row, value, err);
  }
}

static size_t count_tensors(ec_fb_vec values) {
  size_t n = 0;
  for (uint32_t i = 0; i < values.count; i++) n += ec_value_is_tensor(ec_fb_vec_table(values, i));
  return n;
}

static ec_status allocate_values(ec_method *m, ec_fb_vec values, ec_error *err) {
  size_t n = count_tensors(values);
  ec_arena *a = &m->arena;
  m->value_count = values.count;
  EC_TRY(ec_arena_array(a, values.count, sizeof *m->values, "values", &m->values, err));
  EC_TRY(ec_arena_array(a, n, sizeof *m->tensors, "tensors", &m->tensors, err));
  EC_TRY(ec_arena_array(a, n, sizeof *m->placements, "tensors", &m->placements, err));
  EC_TRY(ec_arena_array(a, n, sizeof *m->attributes, "attributes", &m->attributes, err));
  return ec_arena_array(a, n, sizeof *m->initials, "initial state", &m->initials, err);
}

ec_status ec_load_values(ec_method *m, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->values.count;
  if (!rows->values.items) return ec_fail(err, EC_INVALID_PROGRAM, "values are missing");
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * (uint64_t)count, err));
  EC_TRY(allocate_values(m, rows->values, err));
  ec_status status = EC_OK;
  uint32_t i = 0;
  for (; status == EC_OK && i < count; i++) status = load_value(m, rows, i, err);
  if (status != EC_OK) return ec_fail_in(err, status, "value %u", i - 1);
  for (i = 0; status == EC_OK && i < count; i++) status = check_items(m, &m->values[i], err);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "value %u", i - 1);
}

/* ---- inputs and outputs ------------------------------------------------------------------ */

static ec_status load_io_value(ec_method *m, const ec_rows *rows, ec_fb_vec indices, uint32_t i,
                               const char *what, ec_value **out, ec_error *err) {
  uint32_t index;
  EC_TRY(ec_decode_io(rows, indices, i, what, &index, err));
  *out = &m->values[index];
  return EC_OK;
}

static bool is_constant(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR && v->as.tensor->flags & EC_TENSOR_READONLY;
}

ec_status ec_load_io(ec_method *m, const ec_rows *rows, ec_error *err) {
  ec_fb_vec inputs = rows->inputs, outputs = rows->outputs;
  if (!inputs.items || !outputs.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "%s are missing", inputs.items ? "outputs" : "inputs");
  EC_TRY(ec_arena_array(&m->arena, inputs.count, sizeof *m->inputs, "inputs", &m->inputs, err));
  EC_TRY(ec_arena_array(&m->arena, outputs.count, sizeof *m->outputs, "outputs", &m->outputs, err));
  m->input_count = inputs.count;
  m->output_count = outputs.count;
  for (uint32_t i = 0; i < inputs.count; i++) {
    EC_TRY(load_io_value(m, rows, inputs, i, "input", &m->inputs[i].value, err));
    if (is_constant(m->inputs[i].value))
      return ec_fail(err, EC_INVALID_PROGRAM, "input %u is a constant", i);
  }
  for (uint32_t i = 0; i < outputs.count; i++)
    EC_TRY(load_io_value(m, rows, outputs, i, "output", &m->outputs[i].value, err));
  return EC_OK;
}
