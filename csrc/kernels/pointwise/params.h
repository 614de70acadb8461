/* The type of the pointwise engine's loops, and their numbers. */
#ifndef EC_KERNELS_POINTWISE_PARAMS_H
#define EC_KERNELS_POINTWISE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

enum { EC_ELEMENTWISE_INPUTS = 3, EC_ELEMENTWISE_PARAMS = 8 };
enum { EC_ELEMENTWISE_COST = 4 }; /* of an element: between those of a copy and an exponential */

/* Numeric parameters of a loop (alpha, bounds, slopes); the loop reads the kind that it computes
 * in. */
typedef struct ec_params {
  struct {
    double d;
    int64_t i;
  } v[EC_ELEMENTWISE_PARAMS];
  bool zero_division; /* set by loops of integer division */
} ec_params;

/* at[0] is the output, at[1] ... the inputs; steps in bytes. */
typedef void (*ec_elementwise_loop)(int64_t n, char *const *at, const int64_t *step,
                                    ec_params *params);

#endif
