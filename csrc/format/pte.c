/* .pte files: header checks, and access to the data outside the FlatBuffer. */
#include "format/pte.h"

#include <inttypes.h>

#include "core/checked.h"
#include "core/small.h"
#include "format/kind.h"
#include "format/pte_check.h"
#include "format/schema.h"

static const ec_fb_schema *const union_KernelTypes[EC_PTE_OPTIONAL_TENSOR_LIST + 1];
static const ec_fb_schema *const union_InstructionArguments[EC_PTE_FREE_CALL + 1];

#include "format/program.def"

static const ec_fb_schema *const union_KernelTypes[EC_PTE_OPTIONAL_TENSOR_LIST + 1] = {
    [EC_PTE_NULL] = &schema_Null,
    [EC_PTE_INT] = &schema_Int,
    [EC_PTE_BOOL] = &schema_Bool,
    [EC_PTE_DOUBLE] = &schema_Double,
    [EC_PTE_TENSOR] = &schema_Tensor,
    [EC_PTE_STRING] = &schema_String,
    [EC_PTE_INT_LIST] = &schema_IntList,
    [EC_PTE_DOUBLE_LIST] = &schema_DoubleList,
    [EC_PTE_BOOL_LIST] = &schema_BoolList,
    [EC_PTE_TENSOR_LIST] = &schema_TensorList,
    [EC_PTE_OPTIONAL_TENSOR_LIST] = &schema_OptionalTensorList,
};
static const ec_fb_schema *const union_InstructionArguments[EC_PTE_FREE_CALL + 1] = {
    [EC_PTE_KERNEL_CALL] = &schema_KernelCall,
    [EC_PTE_DELEGATE_CALL] = &schema_DelegateCall,
    [EC_PTE_MOVE_CALL] = &schema_MoveCall,
    [EC_PTE_JUMP_FALSE_CALL] = &schema_JumpFalseCall,
    [EC_PTE_FREE_CALL] = &schema_FreeCall,
};

/* The extended header: "eh00", u32 length, u64 program size, u64 segment base, and from length 32
 * on u64 segment data size. Longer headers contain fields of later versions. */
enum {
  NEWEST_VERSION = 0, /* of the schema */
  HEAD_BYTES = 64,    /* the reference reads this many bytes first */
  HEADER_AT = 8,
  LENGTH_AT = HEADER_AT + 4,
  PROGRAM_SIZE_AT = HEADER_AT + 8,
  SEGMENT_BASE_AT = HEADER_AT + 16,
  SEGMENT_SIZE_AT = HEADER_AT + 24,
  SHORT_HEADER = 24,
  LONG_HEADER = 32
};

static ec_status check_identifier(const uint8_t *data, size_t size, ec_error *err) {
  if (size >= HEADER_AT && memcmp(data + 4, "ET12", 4) == 0) {
    if (size >= HEAD_BYTES) return EC_OK;
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "the file has %zu bytes, a .pte program has at least %d: it was cut off", size,
                   HEAD_BYTES);
  }
  ec_status status = size < HEAD_BYTES ? EC_INVALID_ARGUMENT : EC_INVALID_PROGRAM;
  if (size >= HEADER_AT && memcmp(data + 4, "ET", 2) == 0)
    return ec_fail(err, status,
                   "a .pte program of another schema version: found identifier '%.4s', expected "
                   "'ET12'",
                   (const char *)data + 4);
  return ec_kind_fail(data, size, status, "a .pte program", err);
}

static ec_status read_header(ec_pte *pte, ec_error *err) {
  pte->program_size = pte->size;
  if (memcmp(pte->data + HEADER_AT, "eh00", 4) != 0) return EC_OK;
  pte->header_length = ec_read_u32(pte->data + LENGTH_AT);
  if (pte->header_length < SHORT_HEADER)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "the extended header has %" PRIu32 " bytes, expected at least %d",
                   pte->header_length, SHORT_HEADER);
  pte->program_size = ec_read_u64(pte->data + PROGRAM_SIZE_AT);
  pte->segment_base = ec_read_u64(pte->data + SEGMENT_BASE_AT);
  if (pte->header_length >= LONG_HEADER)
    pte->segment_data_size = ec_read_u64(pte->data + SEGMENT_SIZE_AT);
  return EC_OK;
}

/* Checks the sizes in the header. Bytes after them are allowed: files get padded and bundled. */
static ec_status check_sizes(const ec_pte *pte, ec_error *err) {
  if (pte->program_size < 12 || pte->program_size > pte->size)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "the header states %" PRIu64 " bytes of program, the file has %zu%s",
                   pte->program_size, pte->size,
                   pte->program_size > pte->size ? ": it was cut off" : "");
  if (!ec_in_range(pte->segment_base, pte->segment_data_size, pte->size))
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "the header states segments at %" PRIu64 " of %" PRIu64
                   " bytes, the file has %zu: it was cut off",
                   pte->segment_base, pte->segment_data_size, pte->size);
  uint32_t root = ec_read_u32(pte->data);
  if (root < HEADER_AT || root > pte->program_size - 4)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "the root table at %" PRIu32 " is not inside the program of %" PRIu64 " bytes",
                   root, pte->program_size);
  return EC_OK;
}

/* Checks that constants have one location: the segment, or the tables of older files. */
static ec_status check_constants(const ec_pte *pte, ec_error *err) {
  ec_fb_table segment = ec_fb_child(pte->root, EC_PTE_Program_constant_segment);
  ec_fb_vec offsets = ec_fb_vector(segment, EC_PTE_SubsegmentOffsets_offsets);
  ec_bytes unused;
  if (offsets.count <= 1) return EC_OK; /* one offset is the placeholder: no constants */
  uint32_t legacy = ec_fb_vector(pte->root, EC_PTE_Program_constant_buffer).count;
  if (legacy != 0)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "constants are in a segment (%" PRIu32 ") and in constant_buffer (%" PRIu32
                   "), expected one of them",
                   offsets.count, legacy);
  ec_status status = ec_pte_segment(
      pte, ec_fb_u32(segment, EC_PTE_SubsegmentOffsets_segment_index), &unused, err);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "constant_segment");
}

const ec_fb_schema *ec_pte_schema(void) { return &schema_Program; }

ec_status ec_pte_open(ec_pte *out, const uint8_t *data, size_t size, ec_verification level,
                      ec_error *err) {
  ec_pte pte = {.data = data, .size = size};
  *out = (ec_pte){0};
  EC_TRY(check_identifier(data, size, err));
  EC_TRY(read_header(&pte, err));
  EC_TRY(check_sizes(&pte, err));
  EC_TRY(ec_fb_verify(data, (size_t)pte.program_size, &schema_Program, "program", err));
  pte.root = ec_fb_root(data);
  EC_TRY(ec_fb_check_version(pte.root, EC_PTE_Program_version, NEWEST_VERSION, EC_INVALID_PROGRAM,
                             err));
  EC_TRY(check_constants(&pte, err));
  if (!EC_IS_SMALL && level == EC_VERIFY_INTERNAL_CONSISTENCY)
    EC_TRY(ec_pte_check_program(pte.root, err));
  *out = pte;
  return EC_OK;
}

/* Finds segment `index`. An empty segment needs no location: the writer leaves segment_base 0 if
 * all are empty. */
ec_status ec_pte_segment(const ec_pte *pte, uint64_t index, ec_bytes *out, ec_error *err) {
  ec_fb_vec segments = ec_fb_vector(pte->root, EC_PTE_Program_segments);
  if (index >= segments.count)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "segment %" PRIu64 ", but the program has %" PRIu32 " segments", index,
                   segments.count);
  ec_fb_table segment = ec_fb_vec_table(segments, (uint32_t)index);
  uint64_t offset = ec_fb_u64(segment, EC_PTE_DataSegment_offset);
  uint64_t size = ec_fb_u64(segment, EC_PTE_DataSegment_size);
  uint64_t room = pte->size - pte->segment_base;
  *out = (ec_bytes){pte->data, 0};
  if (size == 0) return EC_OK;
  if (pte->segment_base == 0)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "segment %" PRIu64 " has %" PRIu64 " bytes, but the file has no segments",
                   index, size);
  if (pte->segment_data_size) room = pte->segment_data_size;
  if (!ec_in_range(offset, size, room))
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "segment %" PRIu64 " of %" PRIu64 " bytes at %" PRIu64
                   " does not fit into %" PRIu64 " bytes of segments",
                   index, size, offset, room);
  *out = (ec_bytes){pte->data + pte->segment_base + offset, (size_t)size};
  return EC_OK;
}

/* Finds item `index` of a segment that is split by offsets. Sizes are not stored; the caller knows
 * them. */
static ec_status find_subsegment(const ec_pte *pte, ec_fb_table table, uint32_t index,
                                 size_t nbytes, ec_bytes *out, ec_error *err) {
  ec_fb_vec offsets = ec_fb_vector(table, EC_PTE_SubsegmentOffsets_offsets);
  ec_bytes segment;
  if (index >= offsets.count)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "data_buffer_idx %" PRIu32 ", but the program has %" PRIu32 " of them", index,
                   offsets.count);
  EC_TRY(ec_pte_segment(pte, ec_fb_u32(table, EC_PTE_SubsegmentOffsets_segment_index), &segment,
                        err));
  uint64_t offset = ec_fb_vec_u64(offsets, index);
  if (!ec_in_range(offset, nbytes, segment.size))
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "%zu bytes at %" PRIu64 " do not fit into a segment of %zu bytes", nbytes,
                   offset, segment.size);
  *out = (ec_bytes){segment.data + offset, nbytes};
  return EC_OK;
}

static ec_status find_legacy_constant(const ec_pte *pte, uint32_t index, size_t nbytes,
                                      ec_bytes *out, ec_error *err) {
  ec_fb_vec buffers = ec_fb_vector(pte->root, EC_PTE_Program_constant_buffer);
  if (index >= buffers.count)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "data_buffer_idx %" PRIu32 ", but the program has %" PRIu32 " constants", index,
                   buffers.count);
  ec_fb_vec storage = ec_fb_vector(ec_fb_vec_table(buffers, index), EC_PTE_Buffer_storage);
  if (nbytes > storage.count)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "constant_buffer[%" PRIu32 "] has %" PRIu32 " bytes, the tensor needs %zu",
                   index, storage.count, nbytes);
  *out = (ec_bytes){storage.items ? storage.items : pte->data, nbytes};
  return EC_OK;
}

ec_status ec_pte_constant(const ec_pte *pte, uint32_t buffer_idx, size_t nbytes, ec_bytes *out,
                          ec_error *err) {
  ec_fb_table segment = ec_fb_child(pte->root, EC_PTE_Program_constant_segment);
  if (ec_fb_vector(segment, EC_PTE_SubsegmentOffsets_offsets).count != 0)
    return find_subsegment(pte, segment, buffer_idx, nbytes, out, err);
  return find_legacy_constant(pte, buffer_idx, nbytes, out, err);
}

ec_status ec_pte_mutable_data(const ec_pte *pte, uint32_t buffer_idx, size_t nbytes, ec_bytes *out,
                              ec_error *err) {
  ec_fb_vec all = ec_fb_vector(pte->root, EC_PTE_Program_mutable_data_segments);
  if (all.count == 0)
    return ec_fail(err, EC_INVALID_PROGRAM, "the program has no mutable_data_segments");
  return find_subsegment(pte, ec_fb_vec_table(all, 0), buffer_idx, nbytes, out, err);
}

static ec_status find_inline_data(const ec_pte *pte, uint32_t index, ec_bytes *out, ec_error *err) {
  ec_fb_vec all = ec_fb_vector(pte->root, EC_PTE_Program_backend_delegate_data);
  if (index >= all.count)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "backend_delegate_data[%" PRIu32 "], but the program has %" PRIu32, index,
                   all.count);
  ec_fb_vec data = ec_fb_vector(ec_fb_vec_table(all, index), EC_PTE_BackendDelegateInlineData_data);
  *out = (ec_bytes){data.items ? data.items : pte->data, data.count};
  return EC_OK;
}

ec_status ec_pte_delegate_data(const ec_pte *pte, ec_fb_table ref, ec_bytes *out, ec_error *err) {
  if (!ref) return ec_fail(err, EC_INVALID_PROGRAM, "the delegate has no processed data");
  uint32_t index = ec_fb_u32(ref, EC_PTE_BackendDelegateDataReference_index);
  int location = ec_fb_i8(ref, EC_PTE_BackendDelegateDataReference_location);
  if (location == EC_PTE_DATA_INLINE) return find_inline_data(pte, index, out, err);
  if (location == EC_PTE_DATA_SEGMENT) return ec_pte_segment(pte, index, out, err);
  return ec_fail(err, EC_INVALID_PROGRAM, "unknown data location %d", location);
}
