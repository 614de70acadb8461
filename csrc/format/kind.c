/* What a file, directory or object is that is not what was expected, for messages. */
#include "format/kind.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/small.h"

enum {
  HEAD_BYTES = 4096,  /* a zip archive's first name is there, */
  TAIL_BYTES = 65536, /* its list of names here */
  PATH_BYTES = 4096
};

typedef struct file_kind {
  size_t offset, size;
  const char *magic, *inside, *what, *way;
} file_kind;

typedef struct named_kind {
  const char *name, *text;
} named_kind;

static const file_kind files[] = {
#define EC_FILE_KIND(offset, magic, inside, what, way)                                             \
  {offset, sizeof(magic) - 1, magic, inside, what, way},
#define EC_FOLDER_KIND(entry, what, way)
#define EC_OBJECT_KIND(type, what, way)
#include "format/kinds.def"
#undef EC_FILE_KIND
#undef EC_FOLDER_KIND
};

static const named_kind folders[] = {
#define EC_FILE_KIND(offset, magic, inside, what, way)
#define EC_FOLDER_KIND(entry, what, way) {entry, what ": " way},
#include "format/kinds.def"
#undef EC_FOLDER_KIND
#undef EC_OBJECT_KIND
};

static const named_kind objects[] = {
#define EC_FOLDER_KIND(entry, what, way)
#define EC_OBJECT_KIND(type, what, way) {type, what ": " way},
#include "format/kinds.def"
#undef EC_FILE_KIND
#undef EC_FOLDER_KIND
#undef EC_OBJECT_KIND
};

static bool contains(const uint8_t *data, size_t size, const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i + length <= size; i++)
    if (memcmp(data + i, name, length) == 0) return true;
  return false;
}

bool ec_kind_has_name(const uint8_t *data, size_t size, const char *name) {
  const size_t head = size < HEAD_BYTES ? size : HEAD_BYTES;
  const size_t tail = size < TAIL_BYTES ? size : TAIL_BYTES;
  return contains(data, head, name) || contains(data + size - tail, tail, name);
}

/* Returns whether a file has the magic, in which '?' is any byte, and contains the name. */
static bool is_kind(const file_kind *kind, const uint8_t *data, size_t size) {
  if (size < kind->offset || size - kind->offset < kind->size) return false;
  for (size_t i = 0; i < kind->size; i++)
    if (kind->magic[i] != '?' && (uint8_t)kind->magic[i] != data[kind->offset + i]) return false;
  return ec_kind_has_name(data, size, kind->inside);
}

static const file_kind *find_kind(const uint8_t *data, size_t size) {
  for (size_t i = 0; !EC_IS_SMALL && i < sizeof files / sizeof *files; i++)
    if (is_kind(&files[i], data, size)) return &files[i];
  return NULL;
}

bool ec_kind_is_other_archive(const uint8_t *data, size_t size) {
  const file_kind *kind = find_kind(data, size);
  return kind && kind->inside[0] && strcmp(kind->inside, "program.ptg") != 0;
}

ec_status ec_kind_fail(const uint8_t *data, size_t size, ec_status status, const char *expected,
                       ec_error *err) {
  const file_kind *kind = find_kind(data, size);
  if (kind)
    return ec_fail_hint(err, status,
                        strcmp(kind->magic, "FT01") ? EC_HINT_NONE : EC_HINT_IS_DATA,
                        "this is not %s but %s: %s", expected, kind->what, kind->way);
  if (size < 8)
    return ec_fail(err, status, "this is not %s: %zu bytes are too few", expected, size);
  char actual[5] = {0};
  for (size_t i = 0; i < 4; i++) {
    int c = data[4 + i];
    if (!isprint(c))
      return ec_fail(err, status, "this is not %s: its identifier is unknown", expected);
    actual[i] = (char)c;
  }
  return ec_fail(err, status, "this is not %s: found identifier '%s'", expected, actual);
}

const char *ec_kind_of_folder(const char *path) {
  char entry[PATH_BYTES];
  for (size_t i = 0; !EC_IS_SMALL && i < sizeof folders / sizeof *folders; i++) {
    const int length = snprintf(entry, sizeof entry, "%s/%s", path, folders[i].name);
    if (length < PATH_BYTES && access(entry, F_OK) == 0) return folders[i].text;
  }
  return "a directory, not a file";
}

const char *ec_kind_of_object(const char *type) {
  for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
    if (strcmp(objects[i].name, type) == 0) return objects[i].text;
  return NULL;
}
