/* Values of the graph. A constant, prepacked or not (the caches of llama.sdpa_with_kv_cache), is
   state if a call writes it. */
#include "graph.h"

#include <string.h>

#include "core/checked.h"
#include "fields.h"

enum { UNKNOWN = -1 };

/* ---- tensors --------------------------------------------------------------------------------- */

static uint32_t read_tensor(ecv_graph *g, int64_t id, ec_fb_table table, ect_tensor *out) {
  size_t bytes;
  const ec_fb_vec dims = ec_fb_vector(table, ECV_VkTensor_dims);
  const uint8_t datatype = ec_fb_u8(table, ECV_VkTensor_datatype);
  *out = (ect_tensor){.dtype = ecv_scalar_type(datatype), .rank = dims.count, .is_dynamic = true};
  if (out->dtype < 0)
    return ecv_refuse(g, EC_BACKEND_NOT_SUPPORTED, "value %d has the unknown datatype %u",
                      (int)id, datatype);
  if (dims.count > ECT_MAX_RANK)
    return ecv_refuse(g, EC_BACKEND_NOT_SUPPORTED,
                      "value %d has %u dimensions, at most %d are supported", (int)id,
                      (unsigned)dims.count, ECT_MAX_RANK);
  for (uint32_t d = 0; d < dims.count; d++) {
    out->sizes[d] = ec_fb_vec_i32(dims, d);
    if (out->sizes[d] < 0)
      return ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                        "dimension %u of value %d has %u elements, expected less than 2147483648",
                        (unsigned)d, (int)id, (unsigned)ec_fb_vec_i32(dims, d));
  }
  if (!ect_tensor_bytes(out, &bytes))
    return ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM, "value %d is too large", (int)id);
  return EC_BACKEND_OK;
}

/* Makes a tensor one whose bytes, or initial bytes, are constant `id`. */
static uint32_t use_constant(ecv_graph *g, int64_t value, uint32_t id, ect_role role,
                             ect_tensor *t) {
  const void *data;
  size_t size, needed;
  EC_BACKEND_TRY(ecv_payload_constant(&g->c, &g->payload, id, &data, &size));
  if (!ect_tensor_bytes(t, &needed) || needed > size)
    return ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "value %d needs more bytes than the %zu of constant %u", (int)value, size,
                      (unsigned)id);
  if (g->constants[id] == UNKNOWN)
    g->constants[id] = ect_add_constant(&g->program, data, size);
  t->constant = (uint32_t)g->constants[id];
  t->role = (uint8_t)role;
  t->is_dynamic = false;
  return EC_BACKEND_OK;
}

static uint32_t add_tensor(ecv_graph *g, int64_t id, ec_fb_table table, int64_t *out) {
  ect_tensor t;
  int32_t constant = ec_fb_i32(table, ECV_VkTensor_constant_id);
  ect_role role = ECT_CONSTANT;
  EC_BACKEND_TRY(read_tensor(g, id, table, &t));
  if (constant < 0 && g->sources[id] != UNKNOWN)
    constant = ec_fb_i32(ecv_value_table(&g->payload, g->sources[id]), ECV_VkTensor_constant_id);
  if (g->written[id]) role = ECT_STATE;
  if (constant >= 0) EC_BACKEND_TRY(use_constant(g, id, (uint32_t)constant, role, &t));
  *out = ect_add_tensor(&g->program, &t);
  return EC_BACKEND_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int64_t add_numbers(ecv_graph *g, ec_fb_vec items, uint8_t type) {
  int64_t *copy = g->c.host->alloc((items.count + 1u) * sizeof *copy);
  if (!copy) g->program.failed = true;
  for (uint32_t i = 0; copy && i < items.count; i++)
    copy[i] = type == ECV_BOOL_LIST ? items.items[i] : ec_fb_vec_i64(items, i);
  int64_t out = 0;
  if (copy && type == ECV_INT_LIST) out = ect_add_ints(&g->program, copy, items.count);
  else if (copy)
    out = ect_add_list(&g->program, type == ECV_BOOL_LIST ? ECT_BOOL_LIST : ECT_DOUBLE_LIST, copy,
                       items.count);
  g->c.host->free(copy);
  return out;
}

/* Translates the items of a list. `tensors` counts those that are tensors, `none` the absent. */
static uint32_t read_items(ecv_graph *g, int64_t id, ec_fb_vec items, int64_t *out,
                           size_t *tensors, size_t *none) {
  for (uint32_t i = 0; i < items.count; i++) {
    const int32_t item = ec_fb_vec_i32(items, i);
    const uint8_t type = ecv_value_type(&g->payload, item);
    if (type == ECV_VALUE_LIST || type == 0)
      return ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                        "item %u of value list %d is %s, expected a tensor or a number",
                        (unsigned)i, (int)id, type ? "a value list" : "no value");
    EC_BACKEND_TRY(ecv_value(g, item, &out[i]));
    *tensors += type == ECV_TENSOR;
    *none += type == ECV_NULL;
    if (type == ECV_NULL) out[i] = ECT_NO_VALUE;
  }
  return EC_BACKEND_OK;
}

static uint32_t add_value_list(ecv_graph *g, int64_t id, ec_fb_vec items, int64_t *out) {
  size_t tensors = 0, none = 0;
  int64_t *copy = g->c.host->alloc((items.count + 1u) * sizeof *copy);
  if (!copy) return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a list");
  uint32_t status = read_items(g, id, items, copy, &tensors, &none);
  if (status == EC_BACKEND_OK && none && tensors + none != items.count)
    status = ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM, "value list %d mixes None and numbers",
                        (int)id);
  if (status == EC_BACKEND_OK)
    *out = ect_add_list(&g->program, none      ? ECT_OPTIONAL_TENSOR_LIST
                                     : tensors ? ECT_TENSOR_LIST
                                               : ECT_INT_LIST,
                        copy, items.count);
  g->c.host->free(copy);
  return status;
}

/* ---- all kinds ------------------------------------------------------------------------------- */

static uint32_t add_value(ecv_graph *g, int64_t id, uint8_t type, ec_fb_table table,
                          int64_t *out) {
  ect_program *p = &g->program;
  const char *text;
  switch (type) {
  case ECV_INT: *out = ect_add_int(p, ec_fb_i64(table, ECV_Int_int_val)); break;
  case ECV_DOUBLE: *out = ect_add_double(p, ec_fb_f64(table, ECV_Double_double_val)); break;
  case ECV_BOOL: *out = ect_add_bool(p, ec_fb_bool(table, ECV_Bool_bool_val)); break;
  case ECV_SYM_INT: *out = ect_add_int(p, ec_fb_i32(table, ECV_SymInt_value)); break;
  case ECV_STRING:
    text = ec_fb_string(table, ECV_String_string_val);
    *out = text ? ect_add_string(p, text, ec_fb_string_size(table, ECV_String_string_val))
                : ect_add_none(p);
    break;
  case ECV_INT_LIST:
  case ECV_DOUBLE_LIST:
  case ECV_BOOL_LIST: *out = add_numbers(g, ec_fb_vector(table, 0), type); break;
  case ECV_VALUE_LIST:
    return add_value_list(g, id, ec_fb_vector(table, ECV_ValueList_items), out);
  case ECV_TENSOR: return add_tensor(g, id, table, out);
  default: *out = ect_add_none(p);
  }
  return EC_BACKEND_OK;
}

uint32_t ecv_value(ecv_graph *g, int64_t id, int64_t *out) {
  const uint8_t type = ecv_value_type(&g->payload, id);
  *out = 0;
  if (!type)
    return ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "value %d does not exist, or has no content; the graph has %u values",
                      (int)id, (unsigned)g->payload.values.count);
  if (g->values[id] == UNKNOWN)
    EC_BACKEND_TRY(add_value(g, id, type, ecv_value_table(&g->payload, id), &g->values[id]));
  *out = g->values[id];
  return g->program.failed ? EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED,
                                             "no memory for the graph's values")
                           : EC_BACKEND_OK;
}

uint32_t ecv_tensor(ecv_graph *g, int64_t id, int64_t *out, const ect_tensor **tensor) {
  if (ecv_value_type(&g->payload, id) != ECV_TENSOR)
    return ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM, "value %d is not a tensor", (int)id);
  EC_BACKEND_TRY(ecv_value(g, id, out));
  *tensor = ect_tensor_at(&g->program, *out);
  return EC_BACKEND_OK;
}

static bool is_known(const ecv_graph *g, int64_t id) {
  const bool is_tensor = ecv_value_type(&g->payload, id) == ECV_TENSOR;
  const ec_fb_table table = ecv_value_table(&g->payload, id);
  return !is_tensor || g->computed[id] || g->sources[id] != UNKNOWN ||
         ec_fb_i32(table, ECV_VkTensor_constant_id) >= 0;
}

uint32_t ecv_check_computed(ecv_graph *g, int64_t id) {
  int64_t unknown = id;
  bool known = is_known(g, id);
  if (ecv_value_type(&g->payload, id) == ECV_VALUE_LIST) {
    const ec_fb_vec items =
        ec_fb_vector(ecv_value_table(&g->payload, id), ECV_ValueList_items);
    for (uint32_t i = 0; known && i < items.count; i++)
      known = is_known(g, unknown = ec_fb_vec_i32(items, i));
  }
  return known ? (uint32_t)EC_BACKEND_OK
               : ecv_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                            "value %d is read before a call computes it", (int)unknown);
}

uint32_t ecv_graph_open(void *graph, const ec_backend_call *c, const ec_backend_init *what) {
  ecv_graph *g = graph;
  g->c = *c;
  EC_BACKEND_TRY(ecv_payload_open(c, what->payload, what->payload_size, &g->payload));
  const size_t count = g->payload.values.count, constants = g->payload.constants.count;
  g->values = c->host->alloc((count + 1) * sizeof *g->values);
  g->sources = c->host->alloc((count + 1) * sizeof *g->sources);
  g->written = c->host->alloc(count + 1);
  g->computed = c->host->alloc(count + 1);
  g->constants = c->host->alloc((constants + 1) * sizeof *g->constants);
  if (!g->values || !g->sources || !g->written || !g->computed || !g->constants)
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu values", count);
  for (size_t i = 0; i < count; i++) g->values[i] = g->sources[i] = UNKNOWN;
  for (size_t i = 0; i < constants; i++) g->constants[i] = UNKNOWN;
  return EC_BACKEND_OK;
}

void ecv_graph_close(void *graph) {
  ecv_graph *g = graph;
  void *const all[] = {g->values, g->sources, g->written, g->computed, g->constants};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) g->program.host->free(all[i]);
}
