/* Damage to a file, reproducible by its seed on every machine. */
#ifndef EC_TESTING_FUZZ_MUTATE_H
#define EC_TESTING_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#include "format/fb.h"

/* xorshift64*: never zero. */
typedef struct ec_random {
  uint64_t state;
} ec_random;

/* Returns a generator for case `number` of a file. Neighbouring cases are independent. */
ec_random ec_random_seed(uint64_t seed, uint64_t number);
uint64_t ec_random_next(ec_random *r);
/* Returns a number below `n`, which is not 0. */
size_t ec_random_below(ec_random *r, size_t n);

/* Damages `data` in place, one to six times. Returns its new size (at most the old one). The first
 * `tables` bytes, the FlatBuffer, get most of the damage. */
size_t ec_mutate(uint8_t *data, size_t size, size_t tables, ec_random *r);

/* The location of a number of a program: a scalar field, or an item of a vector. */
typedef struct ec_spot {
  uint32_t at;
  uint8_t width;
} ec_spot;

/* Finds at most `room` numbers of a verified program. Returns how many it has. */
size_t ec_find_spots(const uint8_t *data, ec_fb_table table, const ec_fb_schema *schema,
                     ec_spot *spots, size_t room);

/* Changes one to six numbers and nothing else: the result is still a program. */
void ec_mutate_numbers(uint8_t *data, const ec_spot *spots, size_t count, ec_random *r);

#endif
