/* The functions that libFuzzer calls, and fuzz_replay.c in its place. */
#ifndef EC_TESTING_FUZZ_GUIDED_H
#define EC_TESTING_FUZZ_GUIDED_H

#include "testing/fuzz_target.h"

extern ec_fuzz_counts ec_fuzz_all; /* of all inputs so far */

int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Aborts where memory was not given back or a failure came without a sentence. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#endif
