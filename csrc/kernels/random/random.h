/* Random numbers: a counter-based generator and one loop for all distributions.
 *
 * The bits are Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2,
 * 3; SC11). Block k depends only on k and the seed, so any thread can compute any part of a stream.
 * Logarithms and other functions use arithmetic only (numbers.h), not libm, so equal seeds give
 * equal numbers on every machine. They differ from eager's. */
#ifndef EC_KERNELS_RANDOM_RANDOM_H
#define EC_KERNELS_RANDOM_RANDOM_H

#include "kernels/copy.h"

/* Returns the next `n` 64-bit numbers of the call's stream. */
void ec_random_bits(ec_random *random, uint64_t *out, size_t n);

/* [0, range) with negligible bias: the product's high word. range > 0. */
static inline uint64_t ec_random_below(uint64_t bits, uint64_t range) {
  return (uint64_t)((unsigned __int128)bits * range >> 64);
}

typedef enum ec_dist {
  EC_DIST_UNIFORM,     /* [a, b) */
  EC_DIST_NORMAL,      /* mean a, deviation b */
  EC_DIST_LOG_NORMAL,  /* the exponential of a normal number */
  EC_DIST_EXPONENTIAL, /* rate a */
  EC_DIST_GEOMETRIC,   /* trials until a success of probability a: 1, 2, ... */
  EC_DIST_CAUCHY,      /* median a, width b */
  EC_DIST_BERNOULLI    /* 1 with probability a */
} ec_dist;

/* Fills the output argument `o`. The parameters are tensors that broadcast to it, 0-d for a single
 * number. Complex outputs are filled as pairs of real numbers and require 0-d parameters. */
void ec_random_fill(ec_call *c, size_t o, ec_dist dist, const ec_tensor *a, const ec_tensor *b);

#endif
