/* A tensor: dtype, shape, memory layout and data pointer. It does not own its data, except for
 * DYNAMIC_UNBOUND tensors, whose storage grows on the heap (see ec_tensor_resize). */
#ifndef EC_CORE_TENSOR_H
#define EC_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/limits.h"

/* Which sizes may change, as stored in the file. */
typedef enum ec_dynamism {
  EC_STATIC = 0,
  EC_DYNAMIC_BOUND = 1,
  EC_DYNAMIC_UNBOUND = 2
} ec_dynamism;

enum {
  EC_TENSOR_READONLY = 1, /* data must not be written: a constant, or a caller's array */
  EC_TENSOR_MARKED = 2    /* mark of a traversal (runtime/load/code.c) */
};

typedef struct ec_tensor {
  void *data;                       /* NULL: no storage; only numel 0 can be read */
  size_t capacity;                  /* usable bytes at `data` */
  int64_t numel;                    /* product of sizes */
  int64_t numel_bound;              /* maximum numel of a DYNAMIC_BOUND tensor */
  uint8_t dtype;                    /* an ec_dtype */
  uint8_t rank;                     /* fixed for the life of the tensor */
  uint8_t dynamism;                 /* an ec_dynamism */
  uint8_t flags;                    /* EC_TENSOR_* */
  uint8_t dim_order[EC_MAX_RANK];  /* outermost dimension first; fixed for the life of the tensor */
  int64_t sizes[EC_MAX_RANK];
  int64_t strides[EC_MAX_RANK];     /* in elements, from sizes and dim_order: always dense */
  struct ec_storage *storage;       /* heap blocks of an unbound tensor, newest first */
} ec_tensor;

static inline ec_dtype ec_tensor_dtype(const ec_tensor *t) { return (ec_dtype)t->dtype; }
static inline size_t ec_tensor_nbytes(const ec_tensor *t) {
  return (size_t)t->numel * ec_dtype_size((ec_dtype)t->dtype);
}

/* Computes numel of `sizes`. Returns false if a size is negative or the product overflows. */
bool ec_numel(const int64_t *sizes, size_t rank, int64_t *numel);

/* Computes dense strides: the last dimension of dim_order has stride 1; a size of 0 counts as 1. */
void ec_strides(const int64_t *sizes, const uint8_t *dim_order, size_t rank, int64_t *strides);

/* Initialises everything but data and dynamism (static); dim_order NULL means 0, 1, 2, ...
 * Fails on rank > EC_MAX_RANK, negative sizes, overflow, or a dim_order that is not a
 * permutation. */
ec_status ec_tensor_init(ec_tensor *t, ec_dtype dtype, size_t rank, const int64_t *sizes,
                         const uint8_t *dim_order, ec_error *err);

/* True if the tensor has these sizes. */
bool ec_tensor_has_sizes(const ec_tensor *t, size_t rank, const int64_t *sizes);

/* Sets sizes of the same rank within the limits of the tensor's dynamism; storage is not checked.
 * Fails with NotSupported and leaves the tensor unchanged. */
ec_status ec_tensor_set_sizes(ec_tensor *t, size_t rank, const int64_t *sizes, ec_error *err);

/* Sets sizes of the same rank. STATIC: must be equal. DYNAMIC_BOUND: numel within the bound.
 * DYNAMIC_UNBOUND: storage grows. On success, data has room for numel elements. On failure
 * (NotSupported for the shape, MemoryAllocationFailed) the tensor is unchanged. */
ec_status ec_tensor_resize(ec_tensor *t, size_t rank, const int64_t *sizes, ec_error *err);

/* Clears the data pointer. Heap blocks stay until trimmed: views may still point to them. */
void ec_tensor_drop_data(ec_tensor *t);
/* Frees all heap blocks but the newest, which the next resize reuses. `all` frees that one too. */
void ec_tensor_trim(ec_tensor *t, bool all);
/* Returns the bytes of heap blocks. */
size_t ec_tensor_heap(const ec_tensor *t);

/* True if memory order is 0, 1, 2, ... (row-major). */
bool ec_tensor_is_contiguous(const ec_tensor *t);
/* True if both have the same rank, and the same strides in every dimension larger than 1. */
bool ec_tensor_same_layout(const ec_tensor *a, const ec_tensor *b);
bool ec_tensor_same_sizes(const ec_tensor *a, const ec_tensor *b);

/* Writes "(2, 3)" for messages. Returns `buffer`. */
enum { EC_SHAPE_TEXT = 160 };
const char *ec_shape_text(const int64_t *sizes, size_t rank, char *buffer, size_t size);

#endif
