/* A 16-byte element (complex128) that is copied as a unit. */
#ifndef EC_CORE_PAIR16_H
#define EC_CORE_PAIR16_H

#include <stdint.h>

typedef struct ec_pair16 {
  uint64_t low, high;
} ec_pair16;

#endif
