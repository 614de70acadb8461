/* Micro-kernels: the product of one packed panel of A (some rows) and one of B (some columns), kept
 * in registers. gemm.c drives them. */
#ifndef EC_KERNELS_LINALG_MICRO_H
#define EC_KERNELS_LINALG_MICRO_H

#include <stdbool.h>
#include <stddef.h>

/* acc[r * ldacc + c] (+)= sum over i < k of a[i * rows + r] * b[i * ldb + c]. */
typedef void (*ec_micro_fn)(size_t k, const void *a, const void *b, size_t ldb, void *acc,
                            size_t ldacc, bool accumulate);

enum {
  EC_MICRO_STEPS = 3,
  EC_MICRO_LANES = 64,  /* maximum width of a panel */
  EC_MICRO_TILE = 2048  /* maximum bytes of a tile of sums */
};

typedef struct ec_micro {
  size_t rows, cols; /* of one tile: lanes of a packed panel of A and of B */
  size_t size;       /* bytes of one element */
  ec_micro_fn fn[EC_MICRO_STEPS]; /* for one third, two thirds, all of the rows */
} ec_micro;

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

/* Returns the best micro-kernel that this machine can run. */
const ec_micro *ec_micro_find(ec_micro_type type);

#endif
