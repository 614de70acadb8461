/* Counts of the fuzzer's cases, by outcome. */
#ifndef EC_TESTING_FUZZ_COUNTS_H
#define EC_TESTING_FUZZ_COUNTS_H

#include <stddef.h>

enum { EC_FUZZ_STATUSES = 64 }; /* statuses are below */

typedef struct ec_fuzz_counts {
  size_t cases, opened, methods, loaded, ran, skipped;
  size_t compared, undecided, differ; /* calls in two ways: see fuzz_agree.h */
  size_t unordered; /* methods that are not compared: see fuzz_agree.c */
  size_t tensors; /* tensors read from bundled programs */
  size_t failed[EC_FUZZ_STATUSES]; /* by status */
} ec_fuzz_counts;

#endif
