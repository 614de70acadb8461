/* Damage that keeps a FlatBuffer valid: items of its vectors are added, removed or exchanged. */
#ifndef EC_TESTING_FUZZ_GROW_H
#define EC_TESTING_FUZZ_GROW_H

#include "testing/fuzz_target.h"

/* Changes one vector or string of a region: doubles, removes or exchanges an item (instructions,
 * values, operators, segments, sizes ...). The new data is at the region's end. Returns the new
 * size of the file, or the old one if `room` is too small. */
size_t ec_fuzz_grow(uint8_t *data, size_t size, size_t room, const ec_region *region, ec_random *r);

#endif
