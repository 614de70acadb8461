/* Kinds of files that are fuzzed: how one is run, and where its FlatBuffers are. One row each. */
#ifndef EC_TESTING_FUZZ_TARGET_H
#define EC_TESTING_FUZZ_TARGET_H

#include "testing/fuzz_run.h"

/* A verified FlatBuffer inside a file. Growing it moves what is behind its end. */
typedef struct ec_region {
  size_t at, size; /* in the file */
  const ec_fb_schema *schema;
  size_t sizes_at; /* of the numbers in front of it that state sizes; SIZE_MAX: there are none */
  void (*grow)(uint8_t *data, const struct ec_region *region, size_t by);
} ec_region;

enum { EC_MAX_REGIONS = 8 };

typedef struct ec_fuzz_target {
  const char *name;
  /* As ec_fuzz_run. `beside` is the program that data files belong to. */
  int (*run)(ec_bytes file, ec_bytes beside, ec_random r, ec_fuzz_counts *counts);
  /* Fills in the regions of a file; 0 where it has no verified one. */
  size_t (*regions)(ec_bytes file, ec_region *out);
} ec_fuzz_target;

/* NULL where no target has that name (xnnpack: where it is not linked). */
const ec_fuzz_target *ec_fuzz_find_target(const char *name);

/* What the random numbers of a file start from. */
ec_random ec_fuzz_seed(ec_bytes file);

/* A target and its program, as --target=NAME and --program=FILE say. */
typedef struct ec_fuzz_setup {
  const ec_fuzz_target *target;
  ec_bytes beside;
} ec_fuzz_setup;

/* Takes the options in front of (or among) the arguments; exits with 2 where they are wrong. */
ec_fuzz_setup ec_fuzz_set_up(int argc, char **argv);
/* A whole file in a block of its exact size, to be freed; exits with 2 where it cannot be read. */
ec_bytes ec_fuzz_read(const char *path);

#endif
