/* Micro-kernels: the product of one packed panel of A (some rows) and one of B (some columns), kept
 * in registers. gemm.c drives them. */
#ifndef EC_KERNELS_LINALG_MICRO_H
#define EC_KERNELS_LINALG_MICRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* acc[r * ldacc + c] (+)= sum over i < k of a[i * rows + r] * b[i * ldb + c]. */
typedef void (*ec_micro_fn)(size_t k, const void *a, const void *b, size_t ldb, void *acc,
                            size_t ldacc, bool accumulate);

enum {
  EC_MICRO_STEPS = 3,
  EC_MICRO_LANES = 64,  /* maximum width of a panel */
  EC_MICRO_TILE = 2048, /* maximum bytes of a tile of sums */
  EC_MICRO_TAPS = 64
};

typedef struct ec_micro {
  size_t rows, cols; /* of one tile: lanes of a packed panel of A and of B */
  size_t size;       /* bytes of one element */
  ec_micro_fn fn[EC_MICRO_STEPS]; /* for one third, two thirds, all of the rows */
} ec_micro;

/* Columns that one tap of a convolution reads: adjacent elements at `offset`. Those whose bit of
 * `inside` is 0 are zeros, and are not read. */
typedef struct ec_micro_tap {
  int64_t offset;
  uint64_t inside;
} ec_micro_tap;

/* A panel of B that is read in place: `count` taps in each channel. */
typedef struct ec_micro_taps {
  const void *data;    /* the channel of the first row */
  int64_t next;        /* elements to the next channel */
  size_t first, count; /* tap of the first row; number of taps */
  ec_micro_tap tap[EC_MICRO_TAPS];
} ec_micro_taps;

/* Computes the sums of ec_micro_fn, with the same bits. */
typedef void (*ec_micro_taps_fn)(size_t k, const void *a, const ec_micro_taps *b, void *acc,
                                 size_t ldacc, bool accumulate);

/* The compute types of products. */
typedef enum ec_micro_type {
  EC_MICRO_FLOAT,
  EC_MICRO_DOUBLE,
  EC_MICRO_UINT32,
  EC_MICRO_UINT64,
  EC_MICRO_COMPLEX64,
  EC_MICRO_COMPLEX128,
  EC_MICRO_TYPES
} ec_micro_type;

/* One table per instruction set, indexed by ec_micro_type. */
extern const ec_micro ec_micro_generic[EC_MICRO_TYPES];
extern const ec_micro ec_micro_avx2[EC_MICRO_TYPES];
extern const ec_micro ec_micro_avx512[EC_MICRO_TYPES];
extern const ec_micro_taps_fn ec_micro_taps_avx512[EC_MICRO_STEPS]; /* of EC_MICRO_FLOAT */

/* Returns the best micro-kernel that this machine can run. */
const ec_micro *ec_micro_find(ec_micro_type type);

/* Returns the micro-kernels that read B in place, by steps as those of `micro`; NULL: it has
 * none. */
const ec_micro_taps_fn *ec_micro_find_taps(const ec_micro *micro);

/* Writes to[i * width + lane] = what row i reads in each of the first `lanes` ones, at most 16.
 * Only on machines with ec_micro_find_taps. */
void ec_micro_pack_taps(size_t k, const ec_micro_taps *b, size_t lanes, size_t width, float *to);

#endif
