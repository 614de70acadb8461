/* State of a method as one copy of bytes: the tensors that keep values between calls. */
#ifndef EC_RUNTIME_MEMORY_SAVED_STATE_H
#define EC_RUNTIME_MEMORY_SAVED_STATE_H

#include "runtime/memory/uses.h"

/* Finds the memory that keeps values between calls: planned tensors that a call reads before it
 * overwrites them, and mutable buffers without planned memory. A method with jumps may read any of
 * its memory first. */
ec_status ec_find_state(ec_method *m, const ec_uses *uses, ec_error *err);

/* Returns the size of a copy: with a cache of keys and values, as many as it has now. */
size_t ec_state_size(const ec_method *m);

/* Copy the state to, or from, `size` bytes. The caller must hold the lock. Errors: InvalidState if
 * another method has changed the cache of keys and values since `ec_state_size`; InvalidArgument,
 * and no change, for bytes that are no copy of this method's state. */
ec_status ec_state_save(const ec_method *m, uint8_t *to, size_t size, ec_error *err);
ec_status ec_state_restore(const ec_method *m, const uint8_t *from, size_t size, ec_error *err);

#endif
