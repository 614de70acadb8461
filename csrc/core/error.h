/* The message that goes with a status.
 *
 * A function that can fail returns an ec_status and fills the caller's ec_error, its last parameter
 * (NULL: no message wanted). Inner layers state what was found and expected; outer layers prepend
 * the location. */
#ifndef EC_CORE_ERROR_H
#define EC_CORE_ERROR_H

#include "core/status.h"

enum { EC_ERROR_SIZE = 1536 };

/* The remedy of an error. Its wording belongs to the interface: Python's is in python/errors.c. */
typedef enum ec_hint {
  EC_HINT_NONE,
  EC_HINT_CONVERT,    /* an input has another dtype */
  EC_HINT_DATA_FILES, /* none of the given files has the data */
  EC_HINT_IS_DATA,    /* the file has the data of a program */
  EC_HINT_MAX_STEPS,  /* the limit on steps was reached */
  EC_HINT_MAX_BYTES,
  EC_HINT_KV_CACHE,   /* the caller of the load gives one */
  EC_HINTS
} ec_hint;

typedef struct ec_error {
  ec_status status;
  ec_hint hint;
  char message[EC_ERROR_SIZE]; /* NUL-terminated; truncated with "..." */
} ec_error;

#if defined(__GNUC__)
#define EC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args), cold))
#else
#define EC_PRINTF(fmt, args)
#endif

void ec_error_clear(ec_error *err);

/* Sets the message and returns the status, so that `return ec_fail(...)` is one line. */
ec_status ec_fail(ec_error *err, ec_status status, const char *fmt, ...) EC_PRINTF(3, 4);

/* Sets the message with a hint and returns the status. */
ec_status ec_fail_hint(ec_error *err, ec_status status, ec_hint hint, const char *fmt, ...)
    EC_PRINTF(4, 5);

/* Prepends "where: " to the message and returns the error's own status. */
ec_status ec_fail_in(ec_error *err, ec_status status, const char *fmt, ...) EC_PRINTF(3, 4);

/* Appends to the message (lists of missing operators). */
void ec_error_append(ec_error *err, const char *fmt, ...) EC_PRINTF(2, 3);

/* `EC_TRY(call);` returns the status of a failed call. Allowed only while nothing is owned. */
#define EC_TRY(call)                                                                               \
  do {                                                                                             \
    ec_status ec_try_status = (call);                                                              \
    if (ec_try_status != EC_OK) return ec_try_status;                                              \
  } while (0)

/* The variant for functions that own something: assigns `status`, then jumps to `fail:`. */
#define EC_GOTO(status, call)                                                                      \
  do {                                                                                             \
    (status) = (call);                                                                             \
    if ((status) != EC_OK) goto fail;                                                              \
  } while (0)

#endif
