/* Planned memory: sizes and devices, alignment, allocation, and the addresses of tensors in it. */
#include "runtime/memory/planned.h"

#include <inttypes.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/small.h"
#include "runtime/program_internal.h"
#include "runtime/memory/shared_state.h"

static ec_status check_devices(const ec_rows *rows, ec_error *err) {
  ec_fb_vec devices = ec_fb_vector(rows->table, EC_PTE_ExecutionPlan_non_const_buffer_device);
  for (uint32_t i = 0; i < devices.count; i++) {
    ec_fb_table row = ec_fb_vec_table(devices, i);
    const uint8_t device = ec_fb_u8(row, EC_PTE_NonConstBufferDevice_device_type);
    if (device != 0)
      return ec_fail_device(err, device, "planned memory %u",
                            ec_fb_u32(row, EC_PTE_NonConstBufferDevice_buffer_idx));
  }
  return EC_OK;
}

/* Bounds the planned memory inside delegates, which nobody sees beforehand, without a limit of the
 * user: a payload of 1 KB could fill gigabytes. The files raise the bound. */
static ec_status bound_hidden_memory(const ec_method *m, ec_error *err) {
  enum { LEAST = 1 << 30, FOR_FILES = 16 };
  uint64_t bytes = 0, files = 0;
  if (EC_IS_SMALL || !m->depth || m->options.max_bytes) return EC_OK;
  for (size_t i = 1; i < m->planned_count; i++)
    if (__builtin_add_overflow(bytes, m->planned_sizes[i], &bytes)) bytes = UINT64_MAX;
  for (const ec_program *p = m->program->outer; p; p = p->outer) files += ec_program_bytes(p);
  if (bytes <= LEAST + FOR_FILES * files) return EC_OK;
  return ec_fail_hint(err, EC_MEMORY_ALLOCATION_FAILED, EC_HINT_MAX_BYTES,
                      "%" PRIu64 " bytes of planned memory inside a delegate of files of %" PRIu64
                      " bytes, unless they are allowed",
                      bytes, files);
}

ec_status ec_load_memory_sizes(ec_method *m, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->memory.count;
  if (!rows->memory.items)
    return ec_fail(err, EC_INVALID_PROGRAM, "non_const_buffer_sizes is missing");
  if (count > EC_MAX_ARENAS)
    return ec_fail(err, EC_NOT_SUPPORTED, "%u planned memories, at most %d are supported", count,
                   EC_MAX_ARENAS);
  EC_TRY(check_devices(rows, err));
  ec_arena *a = &m->arena;
  EC_TRY(ec_arena_array(a, count, sizeof *m->planned, "planned memory", &m->planned, err));
  EC_TRY(ec_arena_array(a, count, sizeof *m->planned_sizes, "planned memory", &m->planned_sizes,
                        err));
  EC_TRY(ec_arena_array(a, count, sizeof *m->shared_blocks, "planned memory", &m->shared_blocks,
                        err));
  m->planned_count = count;
  for (uint32_t id = 1; id < count; id++)
    EC_TRY(ec_decode_memory(rows, id, &m->planned_sizes[id], err));
  return bound_hidden_memory(m, err);
}

/* Finds the alignment of each arena's start: the largest power of two (up to a page) that divides
 * every offset in it. The exporter aligns offsets relative to the start. */
static void find_alignments(const ec_method *m, size_t *alignments) {
  enum { PAGE = 4096 };
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) alignments[id] = PAGE;
  for (size_t i = 0; i < m->tensor_count; i++)
    alignments[m->placements[i].arena] |= (size_t)m->placements[i].offset;
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) alignments[id] &= ~alignments[id] + 1;
}

/* EC_SLACK bytes after the arena can be read, too. */
static uint8_t *allocate_arena(size_t size, size_t alignment) {
  return ec_add_size(size, EC_SLACK, &size) ? ec_alloc_aligned(size, alignment) : NULL;
}

/* True if `size` bytes from `data` on are among the `whole` ones from `block` on. */
static bool is_inside(const void *data, size_t size, const uint8_t *block, size_t whole) {
  const uintptr_t at = (uintptr_t)data, first = (uintptr_t)block;
  return block && at >= first && at - first <= whole && size <= whole - (at - first);
}

bool ec_is_planned(const ec_method *m, const void *data, size_t size) {
  for (size_t i = 1; i < m->planned_count; i++) {
    const size_t slack = m->shared_blocks[i] ? 0 : EC_SLACK;
    if (is_inside(data, size, m->planned[i], m->planned_sizes[i] + slack)) return true;
  }
  return is_inside(data, size, m->merged.data, m->merged.size + EC_SLACK);
}

/* Allocates all arenas except the program's shared state. */
static ec_status allocate_arenas(ec_method *m, ec_error *err) {
  size_t alignments[EC_MAX_ARENAS];
  find_alignments(m, alignments);
  for (uint32_t id = 1; id < m->planned_count; id++) {
    const ec_state_block *shared = m->shared_blocks[id];
    m->planned[id] = shared ? shared->bytes : allocate_arena(m->planned_sizes[id], alignments[id]);
    if (!m->planned[id])
      return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                     "no memory for %zu bytes of planned memory %u", m->planned_sizes[id], id);
  }
  return EC_OK;
}

static void set_addresses(ec_method *m) {
  for (size_t i = 0; i < m->tensor_count; i++) {
    ec_placement *p = &m->placements[i];
    if (p->arena) m->tensors[i].data = p->data = m->planned[p->arena] + p->offset;
  }
}

ec_status ec_load_memory(ec_method *m, const ec_rows *rows, ec_error *err) {
  if (!EC_IS_SMALL && m->program->options.share_mutable_buffers && m->planned_count > 2)
    EC_TRY(ec_share_state(m, rows, err));
  EC_TRY(allocate_arenas(m, err));
  set_addresses(m);
  return EC_OK;
}
