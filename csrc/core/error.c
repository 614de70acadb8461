/* Error messages: formatting into the caller's fixed buffer. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ec_status_sentence(ec_status status) {
  switch (status) {
#define EC_STATUS(name, code, sentence, pyclass, pybase)                                           \
  case EC_##name: return sentence;
#include "core/status.def"
#undef EC_STATUS
  }
  return "unknown status";
}

void ec_error_clear(ec_error *err) {
  if (!err) return;
  err->status = EC_OK;
  err->hint = EC_HINT_NONE;
  err->message[0] = '\0';
}

/* Formats at `at`. A truncated message is marked, so that it is not mistaken for a complete one. */
static void format_at(ec_error *err, size_t at, const char *fmt, va_list args) {
  int n = vsnprintf(err->message + at, sizeof err->message - at, fmt, args);
  if (n >= 0 && (size_t)n >= sizeof err->message - at)
    memcpy(err->message + sizeof err->message - 4, "...", 4);
}

static void set_error(ec_error *err, ec_status status, ec_hint hint, const char *fmt,
                      va_list args) {
  format_at(err, 0, fmt, args);
  err->status = status;
  err->hint = hint;
}

ec_status ec_fail(ec_error *err, ec_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (err) set_error(err, status, EC_HINT_NONE, fmt, args);
  va_end(args);
  return status;
}

ec_status ec_fail_hint(ec_error *err, ec_status status, ec_hint hint, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (err) set_error(err, status, hint, fmt, args);
  va_end(args);
  return status;
}

ec_status ec_fail_in(ec_error *err, ec_status status, const char *fmt, ...) {
  if (!err) return status;
  char inner[EC_ERROR_SIZE];
  memcpy(inner, err->message, sizeof inner);
  va_list args;
  va_start(args, fmt);
  format_at(err, 0, fmt, args);
  va_end(args);
  ec_error_append(err, ": %s", inner[0] ? inner : ec_status_sentence(status));
  err->status = status;
  return status;
}

void ec_error_append(ec_error *err, const char *fmt, ...) {
  if (!err) return;
  va_list args;
  va_start(args, fmt);
  format_at(err, strlen(err->message), fmt, args);
  va_end(args);
}
