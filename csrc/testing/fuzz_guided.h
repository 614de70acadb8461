/* The functions that libFuzzer, or fuzz_replay.c, calls. */
#ifndef EC_TESTING_FUZZ_GUIDED_H
#define EC_TESTING_FUZZ_GUIDED_H

#include "testing/fuzz_target.h"

extern ec_fuzz_counts ec_fuzz_all; /* of all inputs so far */

int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Aborts on leaked memory or a failure without a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#endif
