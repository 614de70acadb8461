/* Shared by all proofs: assertions, assumptions, and models of functions that only write messages.
 * An uninitialised local variable has any value. */
#ifndef EC_PROOFS_PROVE_H
#define EC_PROOFS_PROVE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/error.h"

#define prove(condition, what) __CPROVER_assert(condition, what)
#define assume(condition) __CPROVER_assume(condition)

/* Most bytes of a file. */
#ifndef EC_PROVED_BYTES
#define EC_PROVED_BYTES (1 << 30)
#endif

/* Returns `size` bytes with any content. */
static inline unsigned char *any_bytes(size_t size) {
  unsigned char *bytes = malloc(size);
  assume(bytes != NULL);
  return bytes;
}

ec_status ec_fail(ec_error *err, ec_status status, const char *fmt, ...) {
  (void)err, (void)fmt;
  return status;
}

ec_status ec_fail_in(ec_error *err, ec_status status, const char *fmt, ...) {
  (void)err, (void)fmt;
  return status;
}

/* Any text that fits, of any length. */
static int model_format(char *text, size_t size) {
  size_t end;
  int length;
  prove(size == 0 || __CPROVER_w_ok(text, size), "a message is written into its memory");
  if (size) text[end < size ? end : size - 1] = '\0';
  return length;
}

int snprintf(char *text, size_t size, const char *fmt, ...) { return model_format(text, size); }

int vsnprintf(char *text, size_t size, const char *fmt, va_list args) {
  return model_format(text, size);
}

#endif
