/* Tensors of the file: meaning checks, and where each one's data is. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/impl.h"

ec_status ec_read_tensor(ec_fb_table table, ec_tensor *t, ec_error *err) {
  int64_t sizes[EC_MAX_RANK];
  ec_fb_vec dims = ec_fb_vector(table, EC_PTE_Tensor_sizes);
  ec_fb_vec order = ec_fb_vector(table, EC_PTE_Tensor_dim_order);
  int8_t dtype = ec_fb_i8(table, EC_PTE_Tensor_scalar_type);
  uint8_t dynamism = ec_fb_u8(table, EC_PTE_Tensor_shape_dynamism);
  int32_t storage_offset = ec_fb_i32(table, EC_PTE_Tensor_storage_offset);
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
  if (dynamism > EC_DYNAMIC_UNBOUND)
    return ec_fail(err, EC_INVALID_PROGRAM, "shape_dynamism %u, expected 0, 1 or 2", dynamism);
  for (uint32_t d = 0; d < dims.count; d++) sizes[d] = ec_fb_vec_i32(dims, d);
  EC_TRY(ec_tensor_init(t, (ec_dtype)dtype, dims.count, sizes, order.items, err));
  t->dynamism = dynamism;
  return EC_OK;
}

ec_fb_table ec_allocation(ec_fb_table value) {
  ec_fb_table tensor = ec_fb_union(value, EC_PTE_EValue_val, EC_PTE_TENSOR);
  return ec_fb_child(tensor, EC_PTE_Tensor_allocation_info);
}

uint32_t ec_planned_id(ec_fb_table value) {
  return ec_fb_u32(ec_allocation(value), EC_PTE_AllocationDetails_memory_id);
}

const char *ec_tensor_fqn(ec_fb_table table) {
  ec_fb_table extra = ec_fb_child(table, EC_PTE_Tensor_extra_tensor_info);
  return ec_fb_string(extra, EC_PTE_ExtraTensorInfo_fully_qualified_name);
}

/* What loops may assume of a tensor's address: items of complex128 are two doubles. */
static size_t item_align(const ec_tensor *t) {
  size_t item = ec_dtype_size(ec_tensor_dtype(t));
  return item > 8 ? 8 : item;
}

ec_status ec_check_place(uint32_t id, uint64_t offset, size_t nbytes, const size_t *sizes,
                         size_t count, ec_error *err) {
  if (id == 0 || id >= count)
    return ec_fail(err, EC_INVALID_ARGUMENT, "memory id %u, the method plans ids 1 to %zu", id,
                   count ? count - 1 : 0);
  if (nbytes && !ec_in_range(offset, nbytes, sizes[id]))
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                   "%zu bytes at offset %" PRIu64 " do not fit into planned memory %u of %zu bytes",
                   nbytes, offset, id, sizes[id]);
  return EC_OK;
}

uint64_t ec_planned_offset(ec_fb_table alloc) {
  uint64_t low = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_offset_low);
  uint64_t high = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_offset_high);
  return high << 32 | low;
}

/* A place in planned memory. An empty tensor may have any offset: planners give it a live one. */
static ec_status place_planned(ec_method *m, ec_fb_table alloc, const ec_tensor *t, ec_home *home,
                               ec_error *err) {
  uint32_t id = ec_fb_u32(alloc, EC_PTE_AllocationDetails_memory_id);
  home->offset = ec_planned_offset(alloc);
  EC_TRY(ec_check_place(id, home->offset, home->nbytes, m->planned_sizes, m->planned_count, err));
  if (home->nbytes == 0) return EC_OK;
  if (home->offset % item_align(t) != 0)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "offset %" PRIu64 " is not a multiple of %zu bytes (%s)",
                   home->offset, item_align(t), ec_dtype_name(ec_tensor_dtype(t)));
  home->arena = id;
  home->data = m->planned[id] + home->offset;
  home->capacity = home->nbytes;
  return EC_OK;
}

/* The copies of constants that were made last, by their addresses. */
enum { COPIES = 64 };
struct ec_copies {
  struct {
    const uint8_t *bytes;
    size_t size;
    void *copy;
  } rows[COPIES];
};

/* A copy at an aligned address, which tensors of the same bytes share. */
static ec_status copy_constant(ec_method *m, const uint8_t *bytes, size_t size, void **out,
                               ec_error *err) {
  if (!m->copies)
    EC_TRY(ec_arena_array(&m->arena, 1, sizeof *m->copies, "copies", &m->copies, err));
  const size_t at = (uintptr_t)bytes / 4 % COPIES;
  if (m->copies->rows[at].bytes != bytes || m->copies->rows[at].size != size) {
    EC_TRY(ec_load_again(size, err));
    EC_TRY(ec_arena_array(&m->arena, size, 1, "an unaligned constant", out, err));
    memcpy(*out, bytes, size);
    m->copies->rows[at].bytes = bytes;
    m->copies->rows[at].size = size;
    m->copies->rows[at].copy = *out;
  }
  *out = m->copies->rows[at].copy;
  return EC_OK;
}

/* Constants stay where they are in the file, unless the file has them at an odd address. */
static ec_status place_constant(ec_method *m, const ec_tensor *t, const uint8_t *bytes,
                                ec_home *home, ec_error *err) {
  home->flags = EC_TENSOR_READONLY;
  home->capacity = home->nbytes;
  memcpy(&home->data, &bytes, sizeof home->data);
  if ((uintptr_t)bytes % item_align(t) == 0 || home->nbytes == 0) return EC_OK;
  return copy_constant(m, bytes, home->nbytes, &home->data, err);
}

/* The .ptd entry of an external tensor: its layout must be the tensor's. */
static ec_status find_external(const ec_program *program, const ec_tensor *t, const char *name,
                               size_t nbytes, ec_bytes *out, ec_error *err) {
  const ec_named_data *entry = name ? ec_program_data(program, name) : NULL;
  if (!entry)
    return ec_fail_hint(err, EC_INVALID_EXTERNAL_DATA, EC_HINT_DATA_FILES,
                        "external tensor '%s' is in none of the %zu data files given",
                        name ? name : "(no name)", program->data_count);
  char found[EC_SHAPE_TEXT], want[EC_SHAPE_TEXT];
  if (!entry->has_layout || entry->layout.dtype != t->dtype ||
      !ec_tensor_same_sizes(&entry->layout, t) ||
      memcmp(entry->layout.dim_order, t->dim_order, t->rank) != 0)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "external tensor '%s' is %s %s, the program expects %s %s (and its dim_order)",
                   name, entry->has_layout ? ec_dtype_name(ec_tensor_dtype(&entry->layout)) : "raw",
                   ec_shape_text(entry->layout.sizes, entry->layout.rank, found, sizeof found),
                   ec_dtype_name(ec_tensor_dtype(t)),
                   ec_shape_text(t->sizes, t->rank, want, sizeof want));
  if (entry->bytes.size < nbytes)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "external tensor '%s' has %zu bytes, expected %zu", name, entry->bytes.size,
                   nbytes);
  *out = entry->bytes;
  return EC_OK;
}

static ec_status check_device(ec_fb_table extra, ec_error *err) {
  uint8_t device = ec_fb_u8(extra, EC_PTE_ExtraTensorInfo_device_type);
  if (device != 0)
    return ec_fail(err, EC_NOT_SUPPORTED, "device type %u, only 0 (CPU) is supported", device);
  return EC_OK;
}

ec_status ec_tensor_bytes(const ec_program *program, ec_fb_table table, const ec_tensor *t,
                          ec_bytes *out, ec_error *err) {
  ec_fb_table extra = ec_fb_child(table, EC_PTE_Tensor_extra_tensor_info);
  const uint32_t buffer = ec_fb_u32(table, EC_PTE_Tensor_data_buffer_idx);
  const size_t nbytes = ec_tensor_nbytes(t);
  *out = (ec_bytes){NULL, 0};
  if (ec_fb_u8(extra, EC_PTE_ExtraTensorInfo_location) == 1)
    return find_external(program, t, ec_tensor_fqn(table), nbytes, out, err);
  if (!buffer) return EC_OK;
  return ec_fb_child(table, EC_PTE_Tensor_allocation_info)
             ? ec_pte_mutable_data(&program->pte, buffer, nbytes, out, err)
             : ec_pte_constant(&program->pte, buffer, nbytes, out, err);
}

/* A block that is shared has its first contents from state.c. */
static ec_status add_initial(ec_method *m, ec_bytes bytes, ec_home *home, ec_error *err) {
  home->touched = true;
  if (home->nbytes && !m->shared[home->arena])
    m->initials[m->initial_count++] = (ec_initial){home->data, bytes.data, home->nbytes};
  return ec_load_again(home->nbytes, err);
}

ec_status ec_load_tensor(ec_method *m, ec_fb_table table, ec_tensor *t, ec_home *home,
                         ec_error *err) {
  EC_TRY(ec_read_tensor(table, t, err));
  ec_fb_table extra = ec_fb_child(table, EC_PTE_Tensor_extra_tensor_info);
  ec_fb_table alloc = ec_fb_child(table, EC_PTE_Tensor_allocation_info);
  ec_bytes bytes;
  EC_TRY(check_device(extra, err));
  home->nbytes = ec_tensor_nbytes(t);
  EC_TRY(ec_tensor_bytes(m->program, table, t, &bytes, err));
  if (alloc) EC_TRY(place_planned(m, alloc, t, home, err));
  else if (bytes.data) EC_TRY(place_constant(m, t, bytes.data, home, err));
  if (t->dynamism != EC_STATIC) {
    EC_TRY(ec_arena_array(&m->arena, t->rank, sizeof *t->sizes, "sizes", &home->sizes, err));
    memcpy(home->sizes, t->sizes, t->rank * sizeof *t->sizes);
  }
  if (alloc && bytes.data) EC_TRY(add_initial(m, bytes, home, err));
  t->data = home->data;
  t->capacity = home->capacity;
  t->flags = home->flags;
  return EC_OK;
}
