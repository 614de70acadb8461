/* Runs the tests of tests.def, or those whose names contain an argument; an argument "=name" is a
 * whole name. */
#include <stdarg.h>
#include <stdio.h>

#include "testing/alloc_fail.h"
#include "testing/test.h"

typedef struct test_row {
  const char *name;
  void (*run)(ec_test *t);
} test_row;

static const test_row rows[] = {
#define EC_TEST(name) {#name, ec_test_##name},
#include "testing/tests.def"
#undef EC_TEST
};

#define MEMORY_LIMIT ((size_t)1 << 32) /* sanitizers abort on impossible sizes themselves */

void ec_test_fail(ec_test *t, const char *file, int line, const char *fmt, ...) {
  va_list args;
  if (t->failures++ >= 10) return; /* loops over every byte fail often */
  printf("%s:%d: %s: ", file, line, t->name);
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
  putchar('\n');
}

void ec_test_expect(ec_test *t, const char *file, int line, ec_status actual, const ec_error *err,
                    ec_status expected, const char *text) {
  const char *message = actual == EC_OK ? "" : err->message;
  if (actual != expected)
    ec_test_fail(t, file, line, "status %#x (%s), expected %#x", (unsigned)actual, message,
                 (unsigned)expected);
  else if (!strstr(message, text))
    ec_test_fail(t, file, line, "'%s' does not contain '%s'", message, text);
  else if (actual != EC_OK && err->status != actual)
    ec_test_fail(t, file, line, "the error holds status %#x", (unsigned)err->status);
}

static int wanted(const char *name, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (argv[i][0] == '=' ? strcmp(name, argv[i] + 1) == 0 : strstr(name, argv[i]) != NULL)
      return 1;
  return argc < 2;
}

/* Every test must free all memory allocated with core/alloc.h. */
static int run_test(const test_row *row) {
  ec_test t = {row->name, 0};
  ec_alloc_fail counter;
  ec_alloc_fail_install(&counter);
  counter.limit = MEMORY_LIMIT;
  row->run(&t);
  if (counter.alive != 0)
    ec_test_fail(&t, __FILE__, __LINE__, "%zu blocks were not freed", counter.alive);
  ec_alloc_fail_remove(&counter);
  return t.failures;
}

int main(int argc, char **argv) {
  size_t passed = 0, failed = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (!wanted(rows[i].name, argc, argv)) continue;
    if (run_test(&rows[i]) == 0) passed++;
    else failed++;
  }
  printf("%zu passed, %zu failed\n", passed, failed);
  return failed != 0 || passed == 0;
}
