/* Damage to a file, the same for the same seed everywhere. */
#ifndef EC_TESTING_FUZZ_MUTATE_H
#define EC_TESTING_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#include "format/fb.h"

/* xorshift64*: never zero. */
typedef struct ec_random {
  uint64_t state;
} ec_random;

/* A generator for case `number` of a file: neighbours have nothing in common. */
ec_random ec_random_seed(uint64_t seed, uint64_t number);
uint64_t ec_random_next(ec_random *r);
/* Below `n`, which is not 0. */
size_t ec_random_below(ec_random *r, size_t n);

/* Damages `data` in place, one to six times; returns its new size (cut off at most). The first
 * `tables` bytes, where the FlatBuffer is, get most of it. */
size_t ec_mutate(uint8_t *data, size_t size, size_t tables, ec_random *r);

/* Where a number of a program is: a scalar field, or an item of a vector. */
typedef struct ec_spot {
  uint32_t at;
  uint8_t width;
} ec_spot;

/* The numbers of a verified program, at most `room` of them; returns how many there are. */
size_t ec_find_spots(const uint8_t *data, ec_fb_table table, const ec_fb_schema *schema,
                     ec_spot *spots, size_t room);

/* Changes one to six numbers and nothing else: what comes out is still a program. */
void ec_mutate_numbers(uint8_t *data, const ec_spot *spots, size_t count, ec_random *r);

#endif
