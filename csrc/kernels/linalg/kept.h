/* Packed sides of matrix products that an instruction keeps between calls: weights. */
#ifndef EC_KERNELS_LINALG_KEPT_H
#define EC_KERNELS_LINALG_KEPT_H

#include "kernels/linalg/gemm_types.h"

/* The memory of all kept sides of a method. */
typedef struct ec_kept_memory {
  size_t bytes, room; /* held, and free for more */
  void (*packed)(void *user, const void *data, size_t size); /* the source is not read again */
  void *user;
} ec_kept_memory;

/* The parameters of packing: equal keys have equal panels. */
typedef struct ec_kept_key {
  ec_gemm_pack pack;
  const void *data;
  int64_t lane, k, variant; /* of the side */
  int64_t lanes, depth;     /* of the matrix: lanes x depth */
  int64_t block_lanes, block_depth;
  size_t width;             /* of a panel */
} ec_kept_key;

typedef struct ec_kept_side {
  struct ec_kept_side *next;
  ec_kept_key key;
  void *panels; /* blocks of lanes, each in blocks of depth */
} ec_kept_side;

/* The kept sides of an instruction. */
typedef struct ec_kept {
  ec_kept_memory *memory;
  uint32_t constants; /* bit i: argument i never changes */
  ec_kept_side *sides;
  size_t count;
  uint8_t batch; /* an ec_kept_batch: the matrices of the constant batch on the right */
} ec_kept;

typedef enum ec_kept_batch {
  EC_KEPT_BATCH_UNKNOWN,
  EC_KEPT_BATCH_EQUAL, /* an expanded matrix */
  EC_KEPT_BATCH_DIFFERENT
} ec_kept_batch;

/* Returns the kept sides of a call if argument `i` never changes, else NULL. */
ec_kept *ec_kept_of(const ec_call *c, size_t i);

/* Returns the kept side with this key, or NULL. */
const ec_kept_side *ec_kept_find(const ec_kept *kept, const ec_kept_key *key);

/* Adds a side with memory for all of its elements of `size` bytes, to be packed by the caller.
 * Returns NULL without room: the side is then packed in each call. */
const ec_kept_side *ec_kept_add(ec_kept *kept, const ec_kept_key *key, size_t size);

/* Tells the memory's owner that `count` elements from `data` have been packed. */
void ec_kept_packed(const ec_kept *kept, const void *data, size_t count, ec_dtype dtype);

/* Frees all sides. */
void ec_kept_deinit(ec_kept *kept);

#endif
