/* The actual kind of a file with the wrong format, for messages. */
#include <ctype.h>

#include "format/fb.h"

typedef struct kind_row {
  size_t offset;
  const char *magic, *what;
  ec_hint hint;
} kind_row;

static const kind_row kinds[] = {
    {4, "ET12", "a .pte program", EC_HINT_NONE},
    {4, "FT01", "a .ptd file (tensor data)", EC_HINT_IS_DATA},
    {4, "BP08", "a bundled program (.bpte: a program with test inputs)", EC_HINT_NONE},
    {8, "ED00", "an ETDump (a recorded trace)", EC_HINT_NONE},
    {4, "TFL3", "a TensorFlow Lite model", EC_HINT_NONE},
    {0, "PK\003\004", "a zip archive (as written by torch.save and torch.export.save)",
     EC_HINT_NONE},
    {0, "version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded",
     EC_HINT_NONE},
    {0, "\x80\x02", "a Python pickle", EC_HINT_NONE},
    {0, "\x7f" "ELF", "a shared library", EC_HINT_NONE},
    {0, "<!DOCTYPE", "an HTML page", EC_HINT_NONE},
    {0, "<html", "an HTML page", EC_HINT_NONE},
};

static const kind_row *detect_kind(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    size_t n = strlen(kinds[i].magic);
    if (size >= kinds[i].offset + n && !memcmp(data + kinds[i].offset, kinds[i].magic, n))
      return &kinds[i];
  }
  return NULL;
}

ec_status ec_fb_fail_kind(const uint8_t *data, size_t size, ec_status status, const char *expected,
                          ec_error *err) {
  const kind_row *kind = detect_kind(data, size);
  if (kind)
    return ec_fail_hint(err, status, kind->hint, "this is not %s but %s", expected, kind->what);
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
