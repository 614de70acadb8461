/* An allocator that counts, refuses the n-th allocation, and has a limit, for tests that fail each
 * allocation in turn, and for the fuzzer. */
#ifndef EC_TESTING_ALLOC_FAIL_H
#define EC_TESTING_ALLOC_FAIL_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct ec_alloc_fail {
  size_t fail_at;  /* refuse this allocation, counted from 1; 0: none */
  int onwards;     /* and all later ones */
  size_t limit;    /* limit on allocated bytes; 0: none */
  atomic_size_t requests; /* allocations requested so far */
  atomic_size_t alive, bytes, peak;
} ec_alloc_fail;

/* Zeroes the counters and installs the hook, while no block is alive. Any thread may allocate. */
void ec_alloc_fail_install(ec_alloc_fail *state);

/* Restores the C library's hook. Blocks that are still alive are lost (a leak checker reports
 * them). */
void ec_alloc_fail_remove(ec_alloc_fail *state);

#endif
