/* Damage that keeps a FlatBuffer whole: items of its vectors added, removed, exchanged. */
#ifndef EC_TESTING_FUZZ_GROW_H
#define EC_TESTING_FUZZ_GROW_H

#include "testing/fuzz_target.h"

/* Changes one vector or string of a region: an item is doubled, left out or exchanged with another
 * (instructions, values, operators, segments, sizes ...). What is new stands at the region's end.
 * Returns the new size of the file; the old one where `room` does not do. */
size_t ec_fuzz_grow(uint8_t *data, size_t size, size_t room, const ec_region *region, ec_random *r);

#endif
