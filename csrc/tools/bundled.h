/* Test cases of a .bpte file. */
#ifndef EC_TOOLS_BUNDLED_H
#define EC_TOOLS_BUNDLED_H

#include "executorch_c/executorch_c.h"

/* True if the bytes begin like a bundled program. */
bool bundled_is(const void *data, size_t size);
/* Finds the program of a bundled file. Returns false with a message. */
bool bundled_program(const void *data, size_t size, const void **program, size_t *program_size,
                     ecr_error *error);
/* Runs the test cases of a method, and prints a line for each. Returns the number of cases that
 * differ by more than atol + rtol * |expected|, or -1 with a message. */
int bundled_run(const void *data, size_t size, ecr_method *method, const char *name, double rtol,
                double atol, ecr_error *error);

#endif
