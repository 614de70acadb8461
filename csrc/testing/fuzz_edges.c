/* An edge is a pair of blocks that run one after the other, hashed as AFL does; a block is known by
 * the distance of its address from this file's, which is the same in all runs of a program. */
#include "testing/fuzz_edges.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EDGES = 1 << 20 };

static uint8_t taken[EDGES];
static _Thread_local uint32_t before;

#if defined __has_attribute && __has_attribute(no_sanitize_coverage)
#define UNCOUNTED __attribute__((no_sanitize_coverage))
#else
#define UNCOUNTED
#endif

/* Called by the compiler's code in each block. */
void __sanitizer_cov_trace_pc(void);
UNCOUNTED void __sanitizer_cov_trace_pc(void) {
  const uintptr_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)taken;
  const uint32_t block = (uint32_t)at * 0x9e3779b1u >> 12;
  taken[(before ^ block) & (EDGES - 1)] = 1;
  before = block >> 1;
}

void ec_fuzz_edges_clear(void) { memset(taken, 0, sizeof taken); }

UNCOUNTED void ec_fuzz_edges_append(const char *path) {
  static uint32_t row[EDGES + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < EDGES; i++)
    if (taken[i]) row[++count] = i;
  row[0] = count;
  FILE *file = fopen(path, "ab");
  if (!file || fwrite(row, sizeof row[0], count + 1, file) != count + 1 || fclose(file) != 0) {
    fprintf(stderr, "cannot write %s\n", path);
    exit(2);
  }
}
