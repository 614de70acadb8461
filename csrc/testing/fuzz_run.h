/* One case of the fuzzer: opens a program, describes it, loads every method and runs each. */
#ifndef EC_TESTING_FUZZ_RUN_H
#define EC_TESTING_FUZZ_RUN_H

#include "testing/fuzz_mutate.h"

enum { EC_FUZZ_STATUSES = 64 }; /* statuses are below */

typedef struct ec_fuzz_counts {
  size_t cases, opened, methods, loaded, ran, skipped;
  size_t tensors; /* of bundled programs, that were read */
  size_t failed[EC_FUZZ_STATUSES]; /* by status, wherever it came up */
} ec_fuzz_counts;

/* Registers the demo backends, and XnnpackBackend where it is linked; call once. */
void ec_fuzz_init(void);

/* Runs a program, with a data file beside it where there is one. The random numbers fill inputs and
 * choose options. Returns 0, or 1 when memory was not given back or a failure came without a
 * sentence (said on stderr). */
int ec_fuzz_run(ec_bytes file, ec_bytes data, ec_random r, ec_fuzz_counts *counts);

#endif
