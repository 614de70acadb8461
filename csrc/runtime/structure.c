/* The whole of a method as rows, read through the verified accessors: values and delegates here,
 * instructions in structure_code.c. */
#include "runtime/structure.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/impl.h"
#include "runtime/structure_code.h"

static int64_t at_in_file(const ec_program *p, ec_bytes bytes) {
  return bytes.data ? bytes.data - p->pte.data : -1;
}

/* ---- values ------------------------------------------------------------------------------ */

static ec_status read_bools(ec_structure *s, ec_fb_vec items, ec_value_row *row, ec_error *err) {
  EC_TRY(ec_arena_array(&s->arena, items.count, sizeof *row->items, "items", &row->items, err));
  for (uint32_t i = 0; i < items.count; i++) row->items[i] = items.items[i] != 0;
  return EC_OK;
}

static ec_status read_doubles(ec_structure *s, ec_fb_vec items, ec_value_row *row, ec_error *err) {
  EC_TRY(ec_arena_array(&s->arena, items.count, sizeof *row->doubles, "items", &row->doubles, err));
  for (uint32_t i = 0; i < items.count; i++) row->doubles[i] = ec_fb_vec_f64(items, i);
  return EC_OK;
}

static ec_status read_indices(ec_structure *s, ec_fb_vec items, ec_value_row *row, ec_error *err) {
  const ec_kind kind = row->info.kind;
  EC_TRY(ec_arena_array(&s->arena, items.count, sizeof *row->items, "items", &row->items, err));
  for (uint32_t i = 0; i < items.count; i++) {
    int64_t at = kind == EC_KIND_INT_LIST ? ec_fb_vec_i64(items, i) : ec_fb_vec_i32(items, i);
    const bool none = at == -1 && kind == EC_KIND_OPTIONAL_TENSOR_LIST;
    if (!none && (at < 0 || (uint64_t)at >= s->value_count))
      return ec_fail(err, EC_INVALID_PROGRAM, "%s item %u is value %" PRId64 " of %zu",
                     ec_kind_name(kind), i, at, s->value_count);
    row->items[i] = at;
  }
  return EC_OK;
}

static ec_status read_list(ec_structure *s, ec_fb_table body, ec_value_row *row, ec_error *err) {
  ec_fb_vec items = ec_fb_vector(body, EC_PTE_IntList_items); /* field 0 of every list table */
  if (!items.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "%s without items", ec_kind_name(row->info.kind));
  row->item_count = items.count;
  if (row->info.kind == EC_KIND_BOOL_LIST) return read_bools(s, items, row, err);
  if (row->info.kind == EC_KIND_DOUBLE_LIST) return read_doubles(s, items, row, err);
  return read_indices(s, items, row, err);
}

/* Where a tensor's data is. External data may be missing: that shows when the method is loaded. */
static ec_status read_place(const ec_program *p, const ec_structure *s, const size_t *sizes,
                            ec_fb_table body, ec_value_row *row, ec_error *err) {
  ec_fb_table extra = ec_fb_child(body, EC_PTE_Tensor_extra_tensor_info);
  ec_fb_table alloc = ec_fb_child(body, EC_PTE_Tensor_allocation_info);
  const bool external = ec_fb_u8(extra, EC_PTE_ExtraTensorInfo_location) == 1;
  const size_t nbytes = row->info.tensor.nbytes;
  ec_bytes bytes = {NULL, 0};
  row->buffer = ec_fb_u32(body, EC_PTE_Tensor_data_buffer_idx);
  if (!external && row->buffer && alloc)
    EC_TRY(ec_pte_mutable_data(&p->pte, row->buffer, nbytes, &bytes, err));
  else if (!external && row->buffer)
    EC_TRY(ec_pte_constant(&p->pte, row->buffer, nbytes, &bytes, err));
  row->at = at_in_file(p, bytes);
  row->place = external      ? EC_PLACE_EXTERNAL
               : row->buffer ? EC_PLACE_CONSTANT
                             : EC_PLACE_NONE;
  if (!alloc) return EC_OK;
  row->place = external || row->buffer ? EC_PLACE_STATE : EC_PLACE_PLANNED;
  row->arena = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_id);
  row->offset = ec_planned_offset(alloc);
  return ec_check_place(row->arena, row->offset, nbytes, sizes, s->arena_count + 1, err);
}

static ec_status read_value(const ec_program *p, ec_structure *s, const size_t *sizes,
                            ec_fb_table value, ec_value_row *row, ec_error *err) {
  ec_fb_table body = ec_fb_child(value, EC_PTE_EValue_val);
  row->at = -1;
  EC_TRY(ec_describe_value(value, &row->info, err));
  if (row->info.kind == EC_KIND_TENSOR) return read_place(p, s, sizes, body, row, err);
  if (row->info.kind >= EC_KIND_BOOL_LIST) return read_list(s, body, row, err);
  return EC_OK;
}

static ec_status read_values(const ec_program *p, ec_structure *s, const size_t *sizes,
                             ec_fb_table plan, ec_error *err) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  EC_TRY(ec_arena_array(&s->arena, values.count, sizeof *s->values, "values", &s->values, err));
  s->value_count = values.count;
  for (uint32_t i = 0; i < values.count; i++) {
    ec_status status =
        read_value(p, s, sizes, ec_fb_vec_table(values, i), &s->values[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "value %u", i);
  }
  return EC_OK;
}

/* ---- memory, inputs and outputs ---------------------------------------------------------- */

/* `sizes` gets those of memory 1, 2, ... at the same index. */
static ec_status read_arenas(ec_structure *s, ec_fb_table plan, size_t **sizes, ec_error *err) {
  ec_fb_vec all = ec_fb_vector(plan, EC_PTE_ExecutionPlan_non_const_buffer_sizes);
  s->arena_count = all.count ? all.count - 1 : 0; /* entry 0 is reserved */
  EC_TRY(ec_arena_array(&s->arena, s->arena_count, sizeof *s->arenas, "arenas", &s->arenas, err));
  EC_TRY(ec_arena_array(&s->arena, s->arena_count + 1, sizeof **sizes, "arenas", sizes, err));
  for (uint32_t i = 0; i < s->arena_count; i++) {
    s->arenas[i] = ec_fb_vec_i64(all, i + 1);
    if (s->arenas[i] < 0)
      return ec_fail(err, EC_INVALID_PROGRAM, "planned memory %u has size %" PRId64, i + 1,
                     s->arenas[i]);
    (*sizes)[i + 1] = (size_t)s->arenas[i];
  }
  return EC_OK;
}

static ec_status read_io(ec_structure *s, ec_fb_vec indices, const char *what, uint32_t **out,
                         size_t *count, ec_error *err) {
  EC_TRY(ec_arena_array(&s->arena, indices.count, sizeof **out, what, out, err));
  *count = indices.count;
  for (uint32_t i = 0; i < indices.count; i++) {
    int32_t at = ec_fb_vec_i32(indices, i);
    if (at < 0 || (size_t)at >= s->value_count)
      return ec_fail(err, EC_INVALID_PROGRAM, "%s %u is value %d of %zu", what, i, at,
                     s->value_count);
    (*out)[i] = (uint32_t)at;
  }
  return EC_OK;
}

/* ---- delegates --------------------------------------------------------------------------- */

static ec_status read_delegate(const ec_program *p, ec_structure *s, ec_fb_table table,
                               ec_delegate_row *row, ec_error *err) {
  ec_fb_table processed = ec_fb_child(table, EC_PTE_BackendDelegate_processed);
  row->id = ec_fb_string(table, EC_PTE_BackendDelegate_id);
  if (!row->id || !processed)
    return ec_fail(err, EC_INVALID_PROGRAM, "no %s", row->id ? "payload" : "backend id");
  row->index = ec_fb_u32(processed, EC_PTE_BackendDelegateDataReference_index);
  row->in_segment =
      ec_fb_i8(processed, EC_PTE_BackendDelegateDataReference_location) == EC_PTE_DATA_SEGMENT;
  EC_TRY(ec_pte_delegate_data(&p->pte, processed, &row->payload, err));
  row->at = at_in_file(p, row->payload);
  return ec_load_specs(&s->arena, table, &row->specs, &row->spec_count, err);
}

static ec_status read_delegates(const ec_program *p, ec_structure *s, ec_fb_table plan,
                                ec_error *err) {
  ec_fb_vec rows = ec_fb_vector(plan, EC_PTE_ExecutionPlan_delegates);
  EC_TRY(ec_arena_array(&s->arena, rows.count, sizeof *s->delegates, "delegates", &s->delegates,
                        err));
  s->delegate_count = rows.count;
  for (uint32_t i = 0; i < rows.count; i++) {
    ec_status status = read_delegate(p, s, ec_fb_vec_table(rows, i), &s->delegates[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "delegate %u", i);
  }
  return EC_OK;
}

ec_status ec_structure_visit(const ec_program *p, const ec_structure *s, size_t delegate,
                             const ec_backend_visitor *visitor, bool *told, ec_error *err) {
  const ec_delegate_row *row = &s->delegates[delegate];
  const ec_backend *backend = ec_backend_find(row->id);
  *told = backend && EC_BACKEND_MEMBER(backend, describe);
  if (!*told) return EC_OK;
  const ec_backend_init init = {.method = s->name, .payload = row->payload.data,
                                .payload_size = row->payload.size, .specs = row->specs,
                                .spec_count = row->spec_count, .program = p};
  ec_arena scratch = {0};
  ec_host_call call = {.err = err, .scratch = &scratch, .program = p};
  ec_status status =
      (ec_status)backend->describe(backend, &ec_host_table, &call, &init, visitor);
  ec_arena_deinit(&scratch);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "delegate %zu, %s", delegate, row->id);
}

/* ---- the whole --------------------------------------------------------------------------- */

static ec_status read_method(const ec_program *p, size_t index, ec_structure *s, ec_error *err) {
  size_t *sizes;
  ec_fb_table plan = ec_fb_vec_table(p->plans, (uint32_t)index);
  s->name = p->names[index];
  EC_TRY(read_arenas(s, plan, &sizes, err));
  EC_TRY(read_values(p, s, sizes, plan, err));
  EC_TRY(read_io(s, ec_fb_vector(plan, EC_PTE_ExecutionPlan_inputs), "input", &s->inputs,
                 &s->input_count, err));
  EC_TRY(read_io(s, ec_fb_vector(plan, EC_PTE_ExecutionPlan_outputs), "output", &s->outputs,
                 &s->output_count, err));
  EC_TRY(read_delegates(p, s, plan, err));
  return ec_structure_chains(s, plan, err);
}

ec_status ec_structure_init(const ec_program *program, size_t method, ec_structure *out,
                            ec_error *err) {
  *out = (ec_structure){0};
  ec_status status = read_method(program, method, out, err);
  if (status == EC_OK) return EC_OK;
  ec_structure_deinit(out);
  return ec_fail_in(err, status, "method '%s'", program->names[method]);
}

void ec_structure_deinit(ec_structure *s) {
  for (size_t i = 0; i < s->op_count; i++) ec_op_release(s->ops[i]);
  s->op_count = 0;
  ec_arena_deinit(&s->arena);
}
