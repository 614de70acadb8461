/* The sentence that goes with a status.
 *
 * A function that can fail returns an ec_status and fills the ec_error that its caller owns
 * (last parameter; NULL is allowed and means "no sentence wanted"). Inner layers say what was
 * found and expected; outer layers prepend where. */
#ifndef EC_CORE_ERROR_H
#define EC_CORE_ERROR_H

#include "core/status.h"

enum { EC_ERROR_SIZE = 1536 };

/* The remedy of an error. The words for it are the interface's: Python's are in python/errors.c. */
typedef enum ec_hint {
  EC_HINT_NONE,
  EC_HINT_CONVERT,    /* an input has another dtype */
  EC_HINT_DATA_FILES, /* data is in none of the files given */
  EC_HINT_MAX_STEPS,  /* that limit was reached */
  EC_HINT_MAX_BYTES,
  EC_HINTS
} ec_hint;

typedef struct ec_error {
  ec_status status;
  ec_hint hint;
  char message[EC_ERROR_SIZE]; /* NUL-terminated; cut with "..." where it would not fit */
} ec_error;

#if defined(__GNUC__)
#define EC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args), cold))
#else
#define EC_PRINTF(fmt, args)
#endif

void ec_error_clear(ec_error *err);

/* Sets the sentence and returns the status, so that `return ec_fail(...)` is one line. */
ec_status ec_fail(ec_error *err, ec_status status, const char *fmt, ...) EC_PRINTF(3, 4);

/* The same with a hint. */
ec_status ec_fail_hint(ec_error *err, ec_status status, ec_hint hint, const char *fmt, ...)
    EC_PRINTF(4, 5);

/* Puts "where: " in front of the sentence and returns the error's own status. */
ec_status ec_fail_in(ec_error *err, ec_status status, const char *fmt, ...) EC_PRINTF(3, 4);

/* Appends to the sentence (lists of missing operators). */
void ec_error_append(ec_error *err, const char *fmt, ...) EC_PRINTF(2, 3);

/* `EC_TRY(call);` returns the status of a failed call. Only while nothing is owned. */
#define EC_TRY(call)                                                                               \
  do {                                                                                             \
    ec_status ec_try_status = (call);                                                              \
    if (ec_try_status != EC_OK) return ec_try_status;                                              \
  } while (0)

/* The same where something is owned: `status` is the function's variable, `fail:` its exit. */
#define EC_GOTO(status, call)                                                                      \
  do {                                                                                             \
    (status) = (call);                                                                             \
    if ((status) != EC_OK) goto fail;                                                              \
  } while (0)

#endif
