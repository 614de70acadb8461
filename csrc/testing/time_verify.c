/* The time of a program's structural checks, for benchmarks/bench_load.py. Test builds only: the
 * runtime has no clock. */
#include <time.h>

#include "format/pte.h"
#include "format/source.h"

__attribute__((visibility("default"))) double ec_testing_time_verify(const char *path, int rounds);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the least seconds of `rounds` calls of ec_pte_open on a mapped file; negative on
 * failure. */
double ec_testing_time_verify(const char *path, int rounds) {
  ec_source source;
  double least = -1;
  if (ec_source_open_file(&source, path, EC_MLOCK_NONE, NULL) != EC_OK) return -1;
  for (int i = 0; i < rounds; i++) {
    ec_pte pte;
    double start = now();
    ec_status status =
        ec_pte_open(&pte, source.data, source.size, EC_VERIFY_INTERNAL_CONSISTENCY, NULL);
    double spent = now() - start;
    if (status != EC_OK) {
      least = -1;
      break;
    }
    if (least < 0 || spent < least) least = spent;
  }
  ec_source_close(&source);
  return least;
}
