/* libFuzzer's entry points for all targets: `fuzz_guided --target=NAME [--program=FILE] CORPUS`.
 * fuzz_replay.c replays them without libFuzzer. */
#include "testing/fuzz_guided.h"

#include <stdlib.h>
#include <string.h>

#include "testing/fuzz_grow.h"

enum { MAX_SPOTS = 1 << 14 };

static ec_fuzz_setup setup;

/* libFuzzer's function; NULL if it is not linked. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

ec_fuzz_counts ec_fuzz_all;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  setup = ec_fuzz_set_up(*argc, *argv);
  return 0;
}

/* Copies to a block of the exact size, as libFuzzer does, so that a sanitizer detects overreads. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const ec_bytes file = {data, size};
  if (setup.target->run(file, setup.program, ec_fuzz_seed(file), &ec_fuzz_all)) abort();
  return 0;
}

static size_t change_numbers(uint8_t *data, size_t size, const ec_region *region, ec_random *r) {
  static ec_spot spots[MAX_SPOTS];
  uint8_t *tables = data + region->at;
  const size_t count = ec_find_spots(tables, ec_fb_root(tables), region->schema, spots, MAX_SPOTS);
  if (count) ec_mutate_numbers(tables, spots, count, r);
  return size;
}

/* Mutates anywhere, or inside one FlatBuffer without a change of its size. */
static size_t change_bytes(uint8_t *data, size_t size, size_t room, const ec_region *region,
                           ec_random *r) {
  if (!region || ec_random_below(r, 4) == 0) {
    if (LLVMFuzzerMutate && ec_random_below(r, 2)) return LLVMFuzzerMutate(data, size, room);
    return size ? ec_mutate(data, size, size, r) : 0;
  }
  uint8_t *tables = data + region->at;
  if (LLVMFuzzerMutate && ec_random_below(r, 2))
    LLVMFuzzerMutate(tables, region->size, region->size);
  else ec_mutate(tables, region->size, region->size, r);
  return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
  ec_region regions[EC_MAX_REGIONS];
  ec_random r = ec_random_seed(seed, size);
  const size_t count = setup.target->regions((ec_bytes){data, size}, regions);
  const ec_region *region = count ? &regions[ec_random_below(&r, count)] : NULL;
  const size_t kind = ec_random_below(&r, 8);
  const bool is_table = region && region->schema;
  if (is_table && kind < 3) return ec_fuzz_grow(data, size, room, region, &r);
  if (is_table && kind < 7) return change_numbers(data, size, region, &r);
  return change_bytes(data, size, room, region, &r);
}
