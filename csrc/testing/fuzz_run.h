/* One case of the fuzzer: opens and describes a program, loads every method and runs each. */
#ifndef EC_TESTING_FUZZ_RUN_H
#define EC_TESTING_FUZZ_RUN_H

#include "testing/fuzz_counts.h"
#include "testing/fuzz_mutate.h"

/* Registers the backends and operators of plug-ins that are linked. Called once. */
void ec_fuzz_init(void);

/* Runs a program, optionally with a data file. The random numbers fill inputs and choose options.
 * Returns 0, or 1 on leaked memory or a failure without a message (reported on stderr). */
int ec_fuzz_run(ec_bytes file, ec_bytes data, ec_random r, ec_fuzz_counts *counts);

#endif
