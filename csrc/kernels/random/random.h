/* Random numbers: a counter-based generator and one loop for all distributions.
 *
 * The bits are Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
 * 1, 2, 3; SC11): block k of a seed is a function of both, so any part of a stream can be made
 * anywhere, on any thread. Logarithms and the like come from arithmetic alone (numbers.h), not
 * from a machine's libm: equal seeds give equal numbers everywhere. They are not eager's. */
#ifndef EC_KERNELS_RANDOM_RANDOM_H
#define EC_KERNELS_RANDOM_RANDOM_H

#include "kernels/copy.h"

/* Takes the next `n` numbers of 64 bits from the call's stream. */
void ec_random_bits(ec_random *random, uint64_t *out, size_t n);

/* [0, range) without bias that could be seen: the product's high word. range > 0. */
static inline uint64_t ec_random_below(uint64_t bits, uint64_t range) {
  return (uint64_t)((unsigned __int128)bits * range >> 64);
}

typedef enum ec_dist {
  EC_DIST_UNIFORM,     /* [a, b) */
  EC_DIST_NORMAL,      /* mean a, deviation b */
  EC_DIST_LOG_NORMAL,  /* the exponential of it */
  EC_DIST_EXPONENTIAL, /* rate a */
  EC_DIST_GEOMETRIC,   /* trials until a success of probability a: 1, 2, ... */
  EC_DIST_CAUCHY,      /* median a, width b */
  EC_DIST_BERNOULLI    /* 1 with probability a */
} ec_dist;

/* Fills the output argument `o`. The parameters are tensors that broadcast to it, 0-d for one
 * number; complex outputs are filled as pairs of real numbers and need such. */
void ec_random_fill(ec_call *c, size_t o, ec_dist dist, const ec_tensor *a, const ec_tensor *b);

#endif
