/* Rows of the file: kinds, tensors and the location of their bytes, numbers, strings, lists. */
#include "runtime/load/decode_values.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/program_internal.h"

/* ---- kinds ------------------------------------------------------------------------------- */

/* Kinds by the file's union type. */
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

static ec_status decode_kind(ec_fb_table value, ec_kind *kind, ec_error *err) {
  uint8_t type = ec_fb_u8(value, EC_PTE_EValue_val_type);
  if (type == 0 || type >= sizeof kinds / sizeof kinds[0])
    return ec_fail(err, EC_INVALID_PROGRAM, "unknown kind %u of value", type);
  *kind = kinds[type];
  if (*kind != EC_KIND_NONE && !ec_fb_child(value, EC_PTE_EValue_val))
    return ec_fail(err, EC_INVALID_PROGRAM, "%s without a value", ec_kind_name(*kind));
  return EC_OK;
}

/* ---- tensors ----------------------------------------------------------------------------- */

static ec_status check_tensor_fields(ec_fb_table table, ec_error *err) {
  ec_fb_vec dims = ec_fb_vector(table, EC_PTE_Tensor_sizes);
  ec_fb_vec order = ec_fb_vector(table, EC_PTE_Tensor_dim_order);
  const int8_t dtype = ec_fb_i8(table, EC_PTE_Tensor_scalar_type);
  const uint8_t dynamism = ec_fb_u8(table, EC_PTE_Tensor_shape_dynamism);
  const int32_t storage_offset = ec_fb_i32(table, EC_PTE_Tensor_storage_offset);
  if (!ec_dtype_valid(dtype))
    return ec_fail(err, EC_NOT_SUPPORTED, "scalar type %d (%s) is not supported", dtype,
                   ec_dtype_name((ec_dtype)dtype));
  if (dims.count > EC_MAX_RANK)
    return ec_fail(err, EC_NOT_SUPPORTED, "rank %u, at most %d dimensions are supported",
                   dims.count, EC_MAX_RANK);
  if (!dims.items || !order.items || order.count != dims.count)
    return ec_fail(err, EC_INVALID_PROGRAM, "%u sizes, but %u entries of dim_order", dims.count,
                   order.count);
  if (storage_offset != 0)
    return ec_fail(err, EC_NOT_SUPPORTED, "storage_offset %d, expected 0", storage_offset);
  if (ec_fb_i8(table, EC_PTE_Tensor_layout) != 0)
    return ec_fail(err, EC_NOT_SUPPORTED, "layout %d, expected 0 (strided)",
                   ec_fb_i8(table, EC_PTE_Tensor_layout));
  if (dynamism > EC_DYNAMIC_UNBOUND)
    return ec_fail(err, EC_INVALID_PROGRAM, "shape_dynamism %u, expected 0, 1 or 2", dynamism);
  return EC_OK;
}

static ec_status decode_tensor(ec_fb_table table, ec_tensor_info *info, ec_error *err) {
  ec_tensor t;
  EC_TRY(check_tensor_fields(table, err));
  ec_fb_table extra = ec_fb_child(table, EC_PTE_Tensor_extra_tensor_info);
  ec_fb_vec dims = ec_fb_vector(table, EC_PTE_Tensor_sizes);
  *info = (ec_tensor_info){
      .name = ec_fb_string(extra, EC_PTE_ExtraTensorInfo_fully_qualified_name),
      .dtype = (ec_dtype)ec_fb_i8(table, EC_PTE_Tensor_scalar_type),
      .rank = dims.count,
      .dynamism = (ec_dynamism)ec_fb_u8(table, EC_PTE_Tensor_shape_dynamism),
      .buffer = ec_fb_u32(table, EC_PTE_Tensor_data_buffer_idx),
      .device = ec_fb_u8(extra, EC_PTE_ExtraTensorInfo_device_type),
      .is_memory_planned = ec_fb_child(table, EC_PTE_Tensor_allocation_info) != NULL,
  };
  for (uint32_t d = 0; d < dims.count; d++) info->sizes[d] = ec_fb_vec_i32(dims, d);
  const uint8_t *dim_order = ec_fb_vector(table, EC_PTE_Tensor_dim_order).items;
  EC_TRY(ec_tensor_init(&t, info->dtype, info->rank, info->sizes, dim_order, err));
  memcpy(info->dim_order, t.dim_order, sizeof t.dim_order);
  info->nbytes = ec_tensor_nbytes(&t);
  return EC_OK;
}

/* ---- location of a tensor's bytes -------------------------------------------------------- */

static ec_status check_extent(const ec_rows *rows, const ec_value_row *row, ec_error *err) {
  const size_t nbytes = row->info.tensor.nbytes;
  size_t size;
  if (row->arena == 0 || row->arena >= rows->memory.count)
    return ec_fail(err, EC_INVALID_ARGUMENT, "memory id %u, the method plans ids 1 to %u",
                   row->arena, rows->arena_count);
  EC_TRY(ec_decode_memory(rows, row->arena, &size, err));
  if (nbytes && !ec_in_range(row->offset, nbytes, size))
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                   "%zu bytes at offset %" PRIu64 " do not fit into planned memory %u of %zu bytes",
                   nbytes, row->offset, row->arena, size);
  return EC_OK;
}

static ec_status decode_planned(const ec_rows *rows, ec_fb_table alloc, ec_value_row *row,
                                ec_error *err) {
  const uint64_t low = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_offset_low);
  const uint64_t high = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_offset_high);
  const bool has_bytes = row->external || row->info.tensor.buffer;
  row->location = has_bytes ? EC_LOCATION_STATE : EC_LOCATION_PLANNED;
  row->arena = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_id);
  row->offset = high << 32 | low;
  return check_extent(rows, row, err);
}

static ec_status decode_location(const ec_rows *rows, ec_fb_table table, ec_value_row *row,
                                 ec_error *err) {
  const ec_pte *pte = &rows->program->pte;
  const size_t nbytes = row->info.tensor.nbytes;
  const uint32_t buffer = row->info.tensor.buffer;
  ec_fb_table extra = ec_fb_child(table, EC_PTE_Tensor_extra_tensor_info);
  ec_fb_table alloc = ec_fb_child(table, EC_PTE_Tensor_allocation_info);
  const uint8_t location = ec_fb_u8(extra, EC_PTE_ExtraTensorInfo_location);
  if (location > 1)
    return ec_fail(err, EC_NOT_SUPPORTED, "location %u, expected 0 (a segment) or 1 (external)",
                   location);
  row->external = location == 1;
  if (ec_fb_u64(extra, EC_PTE_ExtraTensorInfo_mutable_data_segments_idx) != 0)
    return ec_fail(err, EC_NOT_SUPPORTED, "mutable_data_segments_idx %" PRIu64 ", expected 0",
                   ec_fb_u64(extra, EC_PTE_ExtraTensorInfo_mutable_data_segments_idx));
  if (!row->external && buffer && alloc)
    EC_TRY(ec_pte_mutable_data(pte, buffer, nbytes, &row->bytes, err));
  else if (!row->external && buffer)
    EC_TRY(ec_pte_constant(pte, buffer, nbytes, &row->bytes, err));
  if (row->bytes.data) row->file_offset = row->bytes.data - pte->data;
  if (alloc) return decode_planned(rows, alloc, row, err);
  row->location = row->external ? EC_LOCATION_EXTERNAL
                  : buffer      ? EC_LOCATION_CONSTANT
                                : EC_LOCATION_NONE;
  return EC_OK;
}

/* Finds the .ptd entry of an external tensor. Its layout must match the tensor's. */
static ec_status find_external(const ec_program *program, const ec_tensor_info *t, ec_bytes *out,
                               ec_error *err) {
  const ec_named_data *entry = t->name ? ec_program_data(program, t->name) : NULL;
  if (!entry)
    return ec_fail_hint(err, EC_INVALID_EXTERNAL_DATA, EC_HINT_DATA_FILES,
                        "external tensor '%s' is in none of the %zu data files given",
                        t->name ? t->name : "(no name)", program->data_count);
  const ec_tensor *layout = &entry->layout;
  char actual[EC_SHAPE_TEXT], want[EC_SHAPE_TEXT], place[EC_PTD_TEXT];
  if (!entry->has_layout || ec_tensor_dtype(layout) != t->dtype ||
      !ec_tensor_has_sizes(layout, t->rank, t->sizes) ||
      memcmp(layout->dim_order, t->dim_order, t->rank) != 0)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "%s: external tensor '%s' is %s %s, the program expects %s %s (and its "
                   "dim_order)",
                   ec_named_data_place(entry, place), t->name,
                   entry->has_layout ? ec_dtype_name(ec_tensor_dtype(layout)) : "raw",
                   ec_shape_text(layout->sizes, layout->rank, actual, sizeof actual),
                   ec_dtype_name(t->dtype),
                   ec_shape_text(t->sizes, t->rank, want, sizeof want));
  if (entry->bytes.size < t->nbytes)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "%s: external tensor '%s' has %zu bytes, expected %zu",
                   ec_named_data_place(entry, place), t->name, entry->bytes.size, t->nbytes);
  *out = entry->bytes;
  return EC_OK;
}

ec_status ec_tensor_bytes(const ec_program *program, const ec_value_row *row, ec_bytes *out,
                          ec_error *err) {
  if (row->external) return find_external(program, &row->info.tensor, out, err);
  *out = row->bytes;
  return EC_OK;
}

/* ---- lists ------------------------------------------------------------------------------- */

static ec_status check_items(const ec_rows *rows, const ec_value_row *row, ec_error *err) {
  const ec_kind kind = row->info.kind;
  for (uint32_t i = 0; i < row->items.count; i++) {
    const int64_t index = ec_row_item(row, i);
    if (index == -1 && kind == EC_KIND_OPTIONAL_TENSOR_LIST) continue;
    if (index < 0 || (uint64_t)index >= rows->values.count)
      return ec_fail(err, EC_INVALID_PROGRAM, "%s item %u is value %" PRId64 " of %u",
                     ec_kind_name(kind), i, index, rows->values.count);
  }
  return EC_OK;
}

static ec_status decode_list(const ec_rows *rows, ec_fb_table table, ec_value_row *row,
                             ec_error *err) {
  row->items = ec_fb_vector(table, EC_PTE_IntList_items); /* field 0 of every list table */
  if (!row->items.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "%s without items", ec_kind_name(row->info.kind));
  if (row->info.kind == EC_KIND_BOOL_LIST || row->info.kind == EC_KIND_DOUBLE_LIST) return EC_OK;
  return check_items(rows, row, err);
}

/* ---- values ------------------------------------------------------------------------------ */

ec_status ec_decode_value_info(ec_fb_table value, ec_value_info *info, ec_error *err) {
  EC_TRY(decode_kind(value, &info->kind, err));
  ec_fb_table table = ec_fb_child(value, EC_PTE_EValue_val);
  info->scalar.kind = info->kind;
  switch (info->kind) {
  case EC_KIND_TENSOR: return decode_tensor(table, &info->tensor, err);
  case EC_KIND_INT: info->scalar.as.i = ec_fb_i64(table, EC_PTE_Int_int_val); return EC_OK;
  case EC_KIND_DOUBLE: info->scalar.as.d = ec_fb_f64(table, EC_PTE_Double_double_val); return EC_OK;
  case EC_KIND_BOOL: info->scalar.as.b = ec_fb_bool(table, EC_PTE_Bool_bool_val); return EC_OK;
  case EC_KIND_STRING: info->string = ec_fb_string(table, EC_PTE_String_string_val); return EC_OK;
  default: return EC_OK;
  }
}

ec_status ec_decode_value(const ec_rows *rows, uint32_t index, ec_value_row *row, ec_error *err) {
  ec_fb_table value = ec_fb_vec_table(rows->values, index);
  ec_fb_table table = ec_fb_child(value, EC_PTE_EValue_val);
  *row = (ec_value_row){.file_offset = -1};
  EC_TRY(ec_decode_value_info(value, &row->info, err));
  if (row->info.kind == EC_KIND_TENSOR) return decode_location(rows, table, row, err);
  if (row->info.kind >= EC_KIND_BOOL_LIST) return decode_list(rows, table, row, err);
  if (row->info.kind == EC_KIND_STRING && !row->info.string)
    return ec_fail(err, EC_INVALID_PROGRAM, "String without characters");
  return EC_OK;
}
