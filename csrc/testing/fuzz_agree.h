/* Ways to run a method, compared: a difference is a finding, as a crash is. */
#ifndef EC_TESTING_FUZZ_AGREE_H
#define EC_TESTING_FUZZ_AGREE_H

#include "testing/fuzz_call.h"

/* Runs a method without passes, and in another way: with passes whose results keep their bits,
 * traced (both bit-equal), with reference kernels, delegated at load (within rounding). Both have
 * the same inputs and begin in the same state; `one` and `other` are the program, opened twice.
 * Reports a difference on stderr, and sets `bad`. */
void ec_fuzz_agree(ec_fuzz *f, const ec_program *one, const ec_program *other, size_t index);

#endif
