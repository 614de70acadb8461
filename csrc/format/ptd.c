/* .ptd files: header checks and structure. */
#include "format/ptd.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/checked.h"
#include "format/kind.h"
#include "format/schema.h"

#include "format/flat_tensor.def"

/* The header: "FH01", u32 length, u64 FlatBuffer offset and size, u64 segment base and size. */
enum {
  NEWEST_VERSION = 0, /* of the schema */
  HEAD_BYTES = 64,
  HEADER_AT = 8,
  LENGTH_AT = HEADER_AT + 4,
  BUFFER_AT = HEADER_AT + 8,
  SEGMENT_AT = HEADER_AT + 24,
  HEADER_BYTES = 40
};

static ec_status check_identifier(const uint8_t *data, size_t size, ec_error *err) {
  if (size >= HEADER_AT && memcmp(data + 4, "FT01", 4) == 0) {
    if (size >= HEAD_BYTES) return EC_OK;
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "the file has %zu bytes, a .ptd file has at least %d: it was cut off", size,
                   HEAD_BYTES);
  }
  if (size >= HEADER_AT && memcmp(data + 4, "FT", 2) == 0)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "a .ptd file of another version: found identifier '%.4s', expected 'FT01'",
                   (const char *)data + 4);
  return ec_kind_fail(data, size, EC_INVALID_EXTERNAL_DATA, "a .ptd file", err);
}

/* Reads the header. `end` is the end of the FlatBuffer; its offsets count from the start of the
 * file. */
static ec_status read_header(ec_ptd *ptd, uint64_t *end, ec_error *err) {
  const uint8_t *data = ptd->data;
  if (memcmp(data + HEADER_AT, "FH01", 4) != 0)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA, "the file has no FH01 header");
  uint32_t length = ec_read_u32(data + LENGTH_AT);
  if (length < HEADER_BYTES)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "the header has %" PRIu32 " bytes, expected at least %d", length, HEADER_BYTES);
  uint64_t offset = ec_read_u64(data + BUFFER_AT), size = ec_read_u64(data + BUFFER_AT + 8);
  if (!ec_in_range(offset, size, ptd->size))
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "the header states %" PRIu64 " bytes of tables at %" PRIu64
                   ", the file has %zu: it was cut off",
                   size, offset, ptd->size);
  *end = offset + size;
  ptd->segment_base = ec_read_u64(data + SEGMENT_AT);
  ptd->segment_data_size = ec_read_u64(data + SEGMENT_AT + 8);
  if (!ec_in_range(ptd->segment_base, ptd->segment_data_size, ptd->size))
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "the header states %" PRIu64 " bytes of segments at %" PRIu64
                   ", the file has %zu: it was cut off",
                   ptd->segment_data_size, ptd->segment_base, ptd->size);
  return EC_OK;
}

const ec_fb_schema *ec_ptd_schema(void) { return &schema_FlatTensor; }

const char *ec_ptd_text(const char *path, size_t index, char text[EC_PTD_TEXT]) {
  enum { MAX_PATH = EC_PTD_TEXT - 20 };
  const size_t length = path ? strlen(path) : 0;
  if (!path) snprintf(text, EC_PTD_TEXT, "data file %zu", index);
  else if (length <= MAX_PATH) snprintf(text, EC_PTD_TEXT, "data file '%s'", path);
  else snprintf(text, EC_PTD_TEXT, "data file '...%s'", path + length - MAX_PATH);
  return text;
}

ec_status ec_ptd_open(ec_ptd *out, const uint8_t *data, size_t size, ec_error *err) {
  ec_ptd ptd = {.data = data, .size = size};
  uint64_t end = 0;
  *out = (ec_ptd){0};
  EC_TRY(check_identifier(data, size, err));
  EC_TRY(read_header(&ptd, &end, err));
  if (ec_fb_verify(data, (size_t)end, &schema_FlatTensor, "tensor data", err) != EC_OK) {
    if (err) err->status = EC_INVALID_EXTERNAL_DATA;
    return EC_INVALID_EXTERNAL_DATA;
  }
  ptd.root = ec_fb_root(data);
  EC_TRY(ec_fb_check_version(ptd.root, EC_PTD_FlatTensor_version, NEWEST_VERSION,
                             EC_INVALID_EXTERNAL_DATA, err));
  if (!ec_fb_vector(ptd.root, EC_PTD_FlatTensor_segments).items ||
      !ec_fb_vector(ptd.root, EC_PTD_FlatTensor_named_data).items)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA, "the file has no segments or no named_data");
  *out = ptd;
  return EC_OK;
}

ec_status ec_ptd_segment(const ec_ptd *ptd, uint64_t index, ec_bytes *out, ec_error *err) {
  ec_fb_vec segments = ec_fb_vector(ptd->root, EC_PTD_FlatTensor_segments);
  if (index >= segments.count)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "segment %" PRIu64 ", but the file has %" PRIu32, index, segments.count);
  ec_fb_table segment = ec_fb_vec_table(segments, (uint32_t)index);
  uint64_t offset = ec_fb_u64(segment, EC_PTD_DataSegment_offset);
  uint64_t size = ec_fb_u64(segment, EC_PTD_DataSegment_size);
  if (!ec_in_range(offset, size, ptd->segment_data_size))
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "segment %" PRIu64 " of %" PRIu64 " bytes at %" PRIu64
                   " does not fit into %" PRIu64 " bytes of segments",
                   index, size, offset, ptd->segment_data_size);
  *out = (ec_bytes){ptd->data + ptd->segment_base + offset, (size_t)size};
  return EC_OK;
}
