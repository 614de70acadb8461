/* One call of a fuzzed method: random inputs, and memory for outputs. */
#ifndef EC_TESTING_FUZZ_CALL_H
#define EC_TESTING_FUZZ_CALL_H

#include "runtime/describe.h"
#include "runtime/method.h"
#include "testing/fuzz_counts.h"
#include "testing/fuzz_mutate.h"

enum { EC_FUZZ_MAX_IO = 64 };

typedef struct ec_fuzz {
  ec_random r;
  ec_fuzz_counts *counts;
  ec_error err;
  int bad;
  bool vary;  /* the current call passes dynamic inputs with other shapes */
  bool tame;  /* inputs have no random bits */
  ec_random nudge; /* floats change by a few units in the last place; state 0: they do not */
  bool coarse; /* ... by up to 1/256: half a step of int8 */
  volatile uint64_t sink; /* sums of all read data */
} ec_fuzz;

/* Arrays of one call: first those of inputs. */
typedef struct ec_fuzz_arrays {
  void *block[2 * EC_FUZZ_MAX_IO];
  size_t size[2 * EC_FUZZ_MAX_IO];
  size_t count, inputs;
  uint64_t sum; /* of the bytes of inputs */
} ec_fuzz_arrays;

/* Counts a status. A failure must have a message. Returns whether it is EC_OK. */
int ec_fuzz_ok(ec_fuzz *f, ec_status status, const char *what);

/* Binds random inputs, and the caller's memory to every second static output. Returns false if an
 * input is of another kind or too large. */
bool ec_fuzz_bind(ec_fuzz *f, ec_method *m, const ec_method_info *info, ec_fuzz_arrays *a);

/* Frees the arrays. It is a failure if the call has changed an input. */
void ec_fuzz_free(ec_fuzz *f, ec_fuzz_arrays *a);

#endif
