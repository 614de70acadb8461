/* From FlatBuffers to native structs: planned memory, values, inputs and outputs, delegates.
 * Checks of meaning live here: indices in range, kinds, extents. Nothing below sees the file. */
#include <inttypes.h>
#include <string.h>

#include "core/alloc.h"
#include "runtime/impl.h"

/* ---- planned memory ---------------------------------------------------------------------- */

/* Offsets are aligned as the exporter was asked to, relative to the start: the start is aligned to
 * the largest power of two (up to a page) that divides every offset of the arena. */
static void read_alignments(ec_fb_table plan, size_t *alignments) {
  enum { PAGE = 4096 };
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) alignments[id] = PAGE;
  for (uint32_t i = 0; i < values.count; i++) {
    ec_fb_table value = ec_fb_vec_table(values, i);
    const uint32_t id = ec_planned_id(value);
    if (id && id < EC_MAX_ARENAS)
      alignments[id] |=
          ec_fb_u32(ec_allocation(value), EC_PTE_AllocationDetails_memory_offset_low);
  }
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) alignments[id] &= ~alignments[id] + 1;
}

static ec_status check_arenas(ec_method *m, ec_fb_vec sizes, ec_error *err) {
  for (uint32_t id = 1; id < sizes.count; id++) {
    const int64_t size = ec_fb_vec_i64(sizes, id);
    if (size < 0)
      return ec_fail(err, EC_INVALID_PROGRAM, "planned memory %u has size %" PRId64, id, size);
    m->planned_sizes[id] = (size_t)size;
  }
  return EC_OK;
}

/* What the program does not have is the method's own. */
static ec_status make_arenas(ec_method *m, ec_fb_table plan, ec_error *err) {
  size_t alignments[EC_MAX_ARENAS];
  ec_state_ids ids;
  if (m->program->options.share_mutable_buffers && m->planned_count > 2) {
    EC_TRY(ec_state_find(plan, &ids, err));
    EC_TRY(ec_state_blocks(m, &ids, err));
  }
  read_alignments(plan, alignments);
  for (uint32_t id = 1; id < m->planned_count; id++) {
    m->planned[id] = m->shared[id] ? m->shared[id]->bytes
                                   : ec_alloc_aligned(m->planned_sizes[id], alignments[id]);
    if (!m->planned[id])
      return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                     "no memory for %zu bytes of planned memory %u", m->planned_sizes[id], id);
  }
  return EC_OK;
}

ec_status ec_load_memory(ec_method *m, ec_fb_table plan, ec_error *err) {
  ec_fb_vec sizes = ec_fb_vector(plan, EC_PTE_ExecutionPlan_non_const_buffer_sizes);
  if (!sizes.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "non_const_buffer_sizes is missing");
  if (sizes.count > EC_MAX_ARENAS)
    return ec_fail(err, EC_NOT_SUPPORTED, "%u planned memories, at most %d are supported",
                   sizes.count, EC_MAX_ARENAS);
  ec_fb_vec devices = ec_fb_vector(plan, EC_PTE_ExecutionPlan_non_const_buffer_device);
  for (uint32_t i = 0; i < devices.count; i++) {
    ec_fb_table row = ec_fb_vec_table(devices, i);
    uint8_t device = ec_fb_u8(row, EC_PTE_NonConstBufferDevice_device_type);
    if (device != 0)
      return ec_fail(err, EC_NOT_SUPPORTED,
                     "planned memory on device type %u, only CPU is supported", device);
  }
  EC_TRY(ec_arena_array(&m->arena, sizes.count, sizeof *m->planned, "planned memory", &m->planned,
                        err));
  EC_TRY(ec_arena_array(&m->arena, sizes.count, sizeof *m->planned_sizes, "planned memory",
                        &m->planned_sizes, err));
  EC_TRY(ec_arena_array(&m->arena, sizes.count, sizeof *m->shared, "planned memory", &m->shared,
                        err));
  m->planned_count = sizes.count;
  EC_TRY(check_arenas(m, sizes, err));
  return make_arenas(m, plan, err);
}

/* ---- values ------------------------------------------------------------------------------ */

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

static bool fits_item(ec_kind list, const ec_value *item) {
  if (list == EC_KIND_INT_LIST) return ec_is_number(item);
  return item->kind == EC_KIND_TENSOR ||
         (list == EC_KIND_OPTIONAL_TENSOR_LIST && item->kind == EC_KIND_NONE);
}

static ec_value none_item; /* item -1 of an OptionalTensorList; never written */

/* Lists of value indices, 8 bytes each in an IntList, 4 in tensor lists. */
static ec_status load_items(ec_method *m, ec_fb_vec items, ec_value *value, ec_error *err) {
  ec_kind kind = (ec_kind)value->kind;
  EC_TRY(ec_arena_array(&m->arena, items.count, sizeof *value->as.items, "a list",
                        &value->as.items, err));
  for (uint32_t i = 0; i < items.count; i++) {
    int64_t at = kind == EC_KIND_INT_LIST ? ec_fb_vec_i64(items, i) : ec_fb_vec_i32(items, i);
    if (at == -1 && kind == EC_KIND_OPTIONAL_TENSOR_LIST) {
      value->as.items[i] = &none_item;
      continue;
    }
    if (at < 0 || (uint64_t)at >= m->value_count)
      return ec_fail(err, EC_INVALID_PROGRAM, "%s item %u is value %" PRId64 " of %zu",
                     ec_kind_name(kind), i, at, m->value_count);
    ec_value *item = &m->values[at];
    if (!fits_item(kind, item))
      return ec_fail(err, EC_INVALID_PROGRAM, "%s item %u is value %" PRId64 ", a %s",
                     ec_kind_name(kind), i, at, ec_kind_name((ec_kind)item->kind));
    value->as.items[i] = item;
  }
  return EC_OK;
}

/* Kinds by union type of the file. */
static const ec_kind kinds[] = {
    [EC_PTE_NULL] = EC_KIND_NONE,
    [EC_PTE_INT] = EC_KIND_INT,
    [EC_PTE_BOOL] = EC_KIND_BOOL,
    [EC_PTE_DOUBLE] = EC_KIND_DOUBLE,
    [EC_PTE_TENSOR] = EC_KIND_TENSOR,
    [EC_PTE_STRING] = EC_KIND_STRING,
    [EC_PTE_INT_LIST] = EC_KIND_INT_LIST,
    [EC_PTE_DOUBLE_LIST] = EC_KIND_DOUBLE_LIST,
    [EC_PTE_BOOL_LIST] = EC_KIND_BOOL_LIST,
    [EC_PTE_TENSOR_LIST] = EC_KIND_TENSOR_LIST,
    [EC_PTE_OPTIONAL_TENSOR_LIST] = EC_KIND_OPTIONAL_TENSOR_LIST,
};

ec_status ec_read_kind(ec_fb_table value, ec_kind *kind, ec_error *err) {
  uint8_t type = ec_fb_u8(value, EC_PTE_EValue_val_type);
  if (type == 0 || type >= sizeof kinds / sizeof kinds[0])
    return ec_fail(err, EC_INVALID_PROGRAM, "unknown kind %u of value", type);
  *kind = kinds[type];
  if (*kind != EC_KIND_NONE && !ec_fb_child(value, EC_PTE_EValue_val))
    return ec_fail(err, EC_INVALID_PROGRAM, "%s without a value", ec_kind_name(*kind));
  return EC_OK;
}

/* Everything but lists of values, which need all values to be there. */
static ec_status load_value(ec_method *m, ec_fb_table table, ec_value *value, ec_error *err) {
  ec_kind kind;
  EC_TRY(ec_read_kind(table, &kind, err));
  ec_fb_table body = ec_fb_child(table, EC_PTE_EValue_val);
  value->kind = (uint32_t)kind;
  switch (kind) {
  case EC_KIND_INT: value->as.i = ec_fb_i64(body, EC_PTE_Int_int_val); return EC_OK;
  case EC_KIND_BOOL: value->as.b = ec_fb_bool(body, EC_PTE_Bool_bool_val); return EC_OK;
  case EC_KIND_DOUBLE: value->as.d = ec_fb_f64(body, EC_PTE_Double_double_val); return EC_OK;
  case EC_KIND_STRING:
    value->as.string = ec_fb_string(body, EC_PTE_String_string_val);
    if (!value->as.string) return ec_fail(err, EC_INVALID_PROGRAM, "String without characters");
    value->count = (uint32_t)strlen(value->as.string);
    return EC_OK;
  case EC_KIND_TENSOR: {
    size_t row = m->tensor_count++;
    value->as.tensor = &m->tensors[row];
    const char *name = ec_tensor_fqn(body);
    if (name) m->attributes[m->attribute_count++] = (ec_attribute){name, &m->tensors[row]};
    m->homes[row].named = name != NULL;
    return ec_load_tensor(m, body, &m->tensors[row], &m->homes[row], err);
  }
  default: return EC_OK;
  }
}

static ec_status load_list(ec_method *m, ec_fb_table table, ec_value *value, ec_error *err) {
  ec_fb_table body = ec_fb_child(table, EC_PTE_EValue_val);
  if (value->kind < EC_KIND_BOOL_LIST) return EC_OK;
  ec_fb_vec items = ec_fb_vector(body, EC_PTE_IntList_items); /* field 0 of every list table */
  if (!items.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "%s without items", ec_kind_name((ec_kind)value->kind));
  value->count = items.count;
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * (uint64_t)items.count, err));
  if (value->kind == EC_KIND_BOOL_LIST) return load_bools(m, items, value, err);
  if (value->kind == EC_KIND_DOUBLE_LIST) return load_doubles(m, items, value, err);
  return load_items(m, items, value, err);
}

static size_t count_tensors(ec_fb_vec values) {
  size_t n = 0;
  for (uint32_t i = 0; i < values.count; i++)
    n += ec_fb_u8(ec_fb_vec_table(values, i), EC_PTE_EValue_val_type) == EC_PTE_TENSOR;
  return n;
}

static ec_status make_value_arrays(ec_method *m, ec_fb_vec values, ec_error *err) {
  size_t n = count_tensors(values);
  ec_arena *a = &m->arena;
  m->value_count = values.count;
  EC_TRY(ec_arena_array(a, values.count, sizeof *m->values, "values", &m->values, err));
  EC_TRY(ec_arena_array(a, n, sizeof *m->tensors, "tensors", &m->tensors, err));
  EC_TRY(ec_arena_array(a, n, sizeof *m->homes, "tensors", &m->homes, err));
  EC_TRY(ec_arena_array(a, n, sizeof *m->attributes, "attributes", &m->attributes, err));
  return ec_arena_array(a, n, sizeof *m->initials, "initial state", &m->initials, err);
}

ec_status ec_load_values(ec_method *m, ec_fb_table plan, ec_error *err) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  if (!values.items) return ec_fail(err, EC_INVALID_PROGRAM, "values are missing");
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP * (uint64_t)values.count, err));
  EC_TRY(make_value_arrays(m, values, err));
  for (int lists = 0; lists < 2; lists++)
    for (uint32_t i = 0; i < values.count; i++) {
      ec_fb_table table = ec_fb_vec_table(values, i);
      ec_status status = lists ? load_list(m, table, &m->values[i], err)
                               : load_value(m, table, &m->values[i], err);
      if (status != EC_OK) return ec_fail_in(err, status, "value %u", i);
    }
  return EC_OK;
}

/* ---- inputs and outputs ------------------------------------------------------------------ */

static ec_status io_value(ec_method *m, ec_fb_vec indices, uint32_t i, const char *what,
                          ec_value **out, ec_error *err) {
  int32_t at = ec_fb_vec_i32(indices, i);
  if (at < 0 || (size_t)at >= m->value_count)
    return ec_fail(err, EC_INVALID_PROGRAM, "%s %u is value %d of %zu", what, i, at,
                   m->value_count);
  *out = &m->values[at];
  return EC_OK;
}

ec_status ec_load_io(ec_method *m, ec_fb_table plan, ec_error *err) {
  ec_fb_vec inputs = ec_fb_vector(plan, EC_PTE_ExecutionPlan_inputs);
  ec_fb_vec outputs = ec_fb_vector(plan, EC_PTE_ExecutionPlan_outputs);
  if (!inputs.items || !outputs.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "%s are missing", inputs.items ? "outputs" : "inputs");
  EC_TRY(ec_arena_array(&m->arena, inputs.count, sizeof *m->inputs, "inputs", &m->inputs, err));
  EC_TRY(ec_arena_array(&m->arena, outputs.count, sizeof *m->outputs, "outputs", &m->outputs, err));
  m->input_count = inputs.count;
  m->output_count = outputs.count;
  for (uint32_t i = 0; i < inputs.count; i++) {
    EC_TRY(io_value(m, inputs, i, "input", &m->inputs[i].value, err));
    if (m->inputs[i].value->kind == EC_KIND_TENSOR &&
        m->inputs[i].value->as.tensor->flags & EC_TENSOR_READONLY)
      return ec_fail(err, EC_INVALID_PROGRAM, "input %u is a constant", i);
  }
  for (uint32_t i = 0; i < outputs.count; i++)
    EC_TRY(io_value(m, outputs, i, "output", &m->outputs[i].value, err));
  return EC_OK;
}

/* ---- delegates --------------------------------------------------------------------------- */

ec_status ec_load_specs(ec_arena *arena, ec_fb_table delegate, const ec_backend_spec **out,
                        size_t *count, ec_error *err) {
  ec_fb_vec specs = ec_fb_vector(delegate, EC_PTE_BackendDelegate_compile_specs);
  ec_backend_spec *rows;
  EC_TRY(ec_arena_array(arena, specs.count, sizeof *rows, "compile specs", &rows, err));
  for (uint32_t i = 0; i < specs.count; i++) {
    ec_fb_table spec = ec_fb_vec_table(specs, i);
    ec_fb_vec value = ec_fb_vector(spec, EC_PTE_CompileSpec_value);
    rows[i] = (ec_backend_spec){ec_fb_string(spec, EC_PTE_CompileSpec_key), value.items,
                                value.count};
    if (!rows[i].key || !value.items)
      return ec_fail(err, EC_INVALID_PROGRAM, "compile spec %u has no %s", i,
                     rows[i].key ? "value" : "key");
  }
  *out = rows;
  *count = specs.count;
  return EC_OK;
}

static ec_status load_delegate(ec_method *m, ec_fb_table table, ec_delegate *d, ec_error *err) {
  ec_bytes payload;
  ec_fb_table processed = ec_fb_child(table, EC_PTE_BackendDelegate_processed);
  const char *id = ec_fb_string(table, EC_PTE_BackendDelegate_id);
  if (!id || !processed)
    return ec_fail(err, EC_INVALID_PROGRAM, "delegate without %s", id ? "payload" : "backend id");
  EC_TRY(ec_backend_require(id, &d->backend, err));
  EC_TRY(ec_pte_delegate_data(&m->program->pte, processed, &payload, err));
  EC_TRY(ec_load_specs(&m->arena, table, &d->init.specs, &d->init.spec_count, err));
  d->init.method = m->name;
  d->init.payload = payload.data;
  d->init.payload_size = payload.size;
  d->init.program = m->program;
  d->init.instance = m;
  EC_TRY(ec_delegate_options(m, d, err));
  EC_TRY(ec_load_again(payload.size, err));
  ec_host_call call = ec_host_call_of(m, &m->scratch, err);
  ec_status status =
      (ec_status)d->backend->init(d->backend, &ec_host_table, &call, &d->init, &d->handle);
  ec_arena_reset(&m->scratch);
  if (status != EC_OK) return ec_fail_in(err, status, "%s", id);
  d->ready = true;
  return EC_OK;
}

ec_status ec_load_delegates(ec_method *m, ec_fb_table plan, ec_error *err) {
  ec_fb_vec delegates = ec_fb_vector(plan, EC_PTE_ExecutionPlan_delegates);
  EC_TRY(ec_arena_array(&m->arena, delegates.count, sizeof *m->delegates, "delegates",
                        &m->delegates, err));
  m->delegate_count = delegates.count;
  EC_TRY(ec_load_options(m, delegates, err));
  for (uint32_t i = 0; i < delegates.count; i++) {
    ec_error_clear(err);
    ec_status status =
        load_delegate(m, ec_fb_vec_table(delegates, i), &m->delegates[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "delegate %u", i);
  }
  return EC_OK;
}
