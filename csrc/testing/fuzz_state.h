/* Saved state of fuzzed methods. */
#ifndef EC_TESTING_FUZZ_STATE_H
#define EC_TESTING_FUZZ_STATE_H

#include <stdbool.h>

#include "runtime/method.h"

/* Saves the state, resets, and restores it: what is saved again must be the same, else false. The
 * caller holds the method's lock. */
bool ec_fuzz_copy_state(ec_method *m);

#endif
