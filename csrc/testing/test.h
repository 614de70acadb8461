/* Unit tests of the C core: plain functions listed in tests.def, run by test_main.c. */
#ifndef EC_TESTING_TEST_H
#define EC_TESTING_TEST_H

#include <string.h>

#include "core/error.h"

typedef struct ec_test {
  const char *name;
  int failures;
} ec_test;

/* Counts a failure and prints its location; the test continues. */
void ec_test_fail(ec_test *t, const char *file, int line, const char *fmt, ...) EC_PRINTF(4, 5);

#define EC_CHECK(t, condition)                                                                     \
  do {                                                                                             \
    if (!(condition)) ec_test_fail(t, __FILE__, __LINE__, "%s", #condition);                       \
  } while (0)

/* Checks that a call fails with `status` and a message that contains `text`. */
#define EC_CHECK_FAILS(t, call, err, expected, text)                                               \
  ec_test_expect(t, __FILE__, __LINE__, (call), (err), (expected), (text))
#define EC_CHECK_OK(t, call, err) ec_test_expect(t, __FILE__, __LINE__, (call), (err), EC_OK, "")
void ec_test_expect(ec_test *t, const char *file, int line, ec_status actual, const ec_error *err,
                    ec_status expected, const char *text);

#define EC_TEST(name) void ec_test_##name(ec_test *t);
#include "testing/tests.def"
#undef EC_TEST

#endif
