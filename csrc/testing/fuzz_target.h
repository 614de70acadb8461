/* Kinds of fuzzed files, one row each: the function that runs one, and the locations of its
 * FlatBuffers. */
#ifndef EC_TESTING_FUZZ_TARGET_H
#define EC_TESTING_FUZZ_TARGET_H

#include "testing/fuzz_run.h"

/* A verified FlatBuffer inside a file. Growing it moves the data after its end. */
typedef struct ec_region {
  size_t at, size; /* in the file */
  const ec_fb_schema *schema; /* NULL: other bytes, which do not grow */
  size_t sizes_at; /* offset of the numbers before it that state sizes; SIZE_MAX: none */
  void (*grow)(uint8_t *data, const struct ec_region *region, size_t by);
} ec_region;

enum { EC_MAX_REGIONS = 8 };

typedef struct ec_fuzz_target {
  const char *name;
  /* As ec_fuzz_run. Only data files need `program`. */
  int (*run)(ec_bytes file, ec_bytes program, ec_random r, ec_fuzz_counts *counts);
  /* Finds the regions of a file. Returns 0 without a verified one. */
  size_t (*regions)(ec_bytes file, ec_region *out);
} ec_fuzz_target;

/* Returns NULL if no target has that name (xnnpack: if it is not linked). */
const ec_fuzz_target *ec_fuzz_find_target(const char *name);

/* Returns the seed of a file's random numbers. */
ec_random ec_fuzz_seed(ec_bytes file);

/* A target and its program, from --target=NAME and --program=FILE. */
typedef struct ec_fuzz_setup {
  const ec_fuzz_target *target;
  ec_bytes program;
} ec_fuzz_setup;

/* Consumes the options before (or among) the arguments. Exits with 2 if they are invalid. */
ec_fuzz_setup ec_fuzz_set_up(int argc, char **argv);
/* Reads a whole file into a block of its exact size, to be freed. Exits with 2 on failure. */
ec_bytes ec_fuzz_read(const char *path);

#endif
