/* A reader of zip archives: the end record, with its form for large archives (zip64), the central
 * directory, and the local header of each member, which says where its bytes begin. */
#include "zip.h"

#include "core/checked.h"

/* Sizes of records, their signatures, and the places of fields. */
enum {
  END_BYTES = 22, END_MAX_COMMENT = 0xffff, END_COUNT = 10, END_SIZE = 12, END_AT = 16,
  LOCATOR_BYTES = 20, LOCATOR_AT = 8,
  END64_BYTES = 56, END64_COUNT = 32, END64_SIZE = 40, END64_AT = 48,
  ENTRY_BYTES = 46, ENTRY_FLAGS = 8, ENTRY_METHOD = 10, ENTRY_PACKED = 20, ENTRY_SIZE = 24,
  ENTRY_NAME = 28, ENTRY_EXTRA = 30, ENTRY_COMMENT = 32, ENTRY_LOCAL = 42,
  LOCAL_BYTES = 30, LOCAL_NAME = 26, LOCAL_EXTRA = 28,
  EXTRA_ZIP64 = 1, ENCRYPTED = 1
};

static const char end_mark[] = "PK\005\006", locator_mark[] = "PK\006\007",
                  end64_mark[] = "PK\006\006", entry_mark[] = "PK\001\002",
                  local_mark[] = "PK\003\004";

typedef struct archive {
  const ec_backend_call *c;
  const uint8_t *data;
  size_t size;
} archive;

/* An entry of the central directory. */
typedef struct entry {
  ect_text name;
  const uint8_t *record;
  uint64_t packed, size, local;
} entry;

#define REFUSE(a, ...) EC_BACKEND_FAIL((a)->c, EC_BACKEND_INVALID_PROGRAM, __VA_ARGS__)

static uint64_t read_bytes(const uint8_t *at, size_t width) {
  uint64_t number = 0;
  for (size_t i = width; i-- > 0;) number = number << 8 | at[i];
  return number;
}

/* Returns a record that begins with a mark; NULL if it is not inside the archive. */
static const uint8_t *find_record(const archive *a, uint64_t at, size_t size, const char *mark) {
  if (!ec_in_range(at, size, a->size) || memcmp(a->data + at, mark, 4) != 0) return NULL;
  return a->data + at;
}

static const uint8_t *find_end(const archive *a) {
  for (size_t back = END_BYTES; back <= a->size && back <= END_BYTES + END_MAX_COMMENT; back++) {
    const uint8_t *end = find_record(a, a->size - back, END_BYTES, end_mark);
    if (end) return end;
  }
  return NULL;
}

/* Finds the central directory. */
static uint32_t find_directory(const archive *a, uint64_t *at, uint64_t *size, uint64_t *count) {
  const uint8_t *end = find_end(a);
  if (!end)
    return REFUSE(a, "a zip archive without an end record: it was cut off");
  const uint64_t locator_at = (uint64_t)(end - a->data) - LOCATOR_BYTES;
  const uint8_t *locator = find_record(a, locator_at, LOCATOR_BYTES, locator_mark);
  *count = read_bytes(end + END_COUNT, 2);
  *size = read_bytes(end + END_SIZE, 4);
  *at = read_bytes(end + END_AT, 4);
  if (locator) {
    end = find_record(a, read_bytes(locator + LOCATOR_AT, 8), END64_BYTES, end64_mark);
    if (!end) return REFUSE(a, "the zip64 end record is not where its locator says");
    *count = read_bytes(end + END64_COUNT, 8);
    *size = read_bytes(end + END64_SIZE, 8);
    *at = read_bytes(end + END64_AT, 8);
  }
  if (!ec_in_range(*at, *size, a->size))
    return REFUSE(a, "the zip directory of %llu bytes at %llu is not inside the file of %zu bytes",
                  (unsigned long long)*size, (unsigned long long)*at, a->size);
  return EC_BACKEND_OK;
}

/* Takes the next 8 bytes of a zip64 field for a number that its own 4 bytes cannot hold. */
static bool widen(uint64_t *number, const uint8_t **field, const uint8_t *end) {
  if (*number != UINT32_MAX) return true;
  if (end - *field < 8) return false;
  *number = read_bytes(*field, 8);
  *field += 8;
  return true;
}

/* Reads numbers of more than 32 bits. Returns false without the field that has them. */
static bool read_zip64(entry *e, const uint8_t *extra, size_t size) {
  if (e->size != UINT32_MAX && e->packed != UINT32_MAX && e->local != UINT32_MAX) return true;
  for (size_t at = 0; size - at >= 4;) {
    const uint8_t *field = extra + at + 4;
    const size_t bytes = (size_t)read_bytes(extra + at + 2, 2);
    if (bytes > size - at - 4) return false;
    if (read_bytes(extra + at, 2) == EXTRA_ZIP64)
      return widen(&e->size, &field, extra + at + 4 + bytes) &&
             widen(&e->packed, &field, extra + at + 4 + bytes) &&
             widen(&e->local, &field, extra + at + 4 + bytes);
    at += 4 + bytes;
  }
  return false;
}

/* Reads an entry at `*at` of the directory's end `end`, and moves behind it. */
static uint32_t read_entry(const archive *a, uint64_t *at, uint64_t end, entry *out) {
  const uint8_t *record =
      *at <= end && end - *at >= ENTRY_BYTES ? find_record(a, *at, ENTRY_BYTES, entry_mark) : NULL;
  const size_t name = record ? (size_t)read_bytes(record + ENTRY_NAME, 2) : 0;
  const size_t extra = record ? (size_t)read_bytes(record + ENTRY_EXTRA, 2) : 0;
  const size_t comment = record ? (size_t)read_bytes(record + ENTRY_COMMENT, 2) : 0;
  if (!record || end - *at - ENTRY_BYTES < name + extra + comment)
    return REFUSE(a, "the zip directory has no entry at byte %llu", (unsigned long long)*at);
  *out = (entry){.name = {record + ENTRY_BYTES, name},
                 .record = record,
                 .packed = read_bytes(record + ENTRY_PACKED, 4),
                 .size = read_bytes(record + ENTRY_SIZE, 4),
                 .local = read_bytes(record + ENTRY_LOCAL, 4)};
  if (!read_zip64(out, record + ENTRY_BYTES + name, extra))
    return REFUSE(a, "member '%.*s' has no zip64 sizes", ECT_CLIP(out->name, 80));
  *at += ENTRY_BYTES + name + extra + comment;
  return EC_BACKEND_OK;
}

/* Finds the bytes of a member. */
static uint32_t read_member(const archive *a, const entry *e, ect_member *out) {
  const unsigned method = (unsigned)read_bytes(e->record + ENTRY_METHOD, 2);
  if (out->data) return REFUSE(a, "two members are named '%s'", out->name);
  if (read_bytes(e->record + ENTRY_FLAGS, 2) & ENCRYPTED)
    return REFUSE(a, "member '%s' is encrypted", out->name);
  if (method || e->packed != e->size)
    return REFUSE(a, "member '%s' is compressed (method %u), expected a stored one (0)", out->name,
                  method);
  const uint8_t *local = find_record(a, e->local, LOCAL_BYTES, local_mark);
  if (!local)
    return REFUSE(a, "member '%s' has no header at byte %llu", out->name,
                  (unsigned long long)e->local);
  const uint64_t begin = e->local + LOCAL_BYTES + read_bytes(local + LOCAL_NAME, 2) +
                         read_bytes(local + LOCAL_EXTRA, 2);
  if (!ec_in_range(begin, e->size, a->size))
    return REFUSE(a, "member '%s' of %llu bytes at %llu is not inside the file of %zu bytes",
                  out->name, (unsigned long long)e->size, (unsigned long long)begin, a->size);
  out->data = a->data + begin;
  out->size = (size_t)e->size;
  return EC_BACKEND_OK;
}

uint32_t ect_zip_find(const ec_backend_call *c, const uint8_t *data, size_t size,
                      ect_member *members, size_t count) {
  const archive a = {c, data, size};
  uint64_t at = 0, bytes = 0, entries = 0;
  EC_BACKEND_TRY(find_directory(&a, &at, &bytes, &entries));
  const uint64_t end = at + bytes;
  for (uint64_t i = 0; i < entries; i++) {
    entry e = {0};
    EC_BACKEND_TRY(read_entry(&a, &at, end, &e));
    for (size_t m = 0; m < count; m++)
      if (ect_text_is(e.name, members[m].name)) EC_BACKEND_TRY(read_member(&a, &e, &members[m]));
  }
  return EC_BACKEND_OK;
}
