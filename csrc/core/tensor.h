/* A tensor: dtype, shape, memory layout and where the data is. It never owns its data, except
 * for DYNAMIC_UNBOUND tensors, whose storage grows on the heap (see ec_tensor_resize). */
#ifndef EC_CORE_TENSOR_H
#define EC_CORE_TENSOR_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/limits.h"

/* As in the file: which sizes may change. */
typedef enum ec_dynamism {
  EC_STATIC = 0,
  EC_DYNAMIC_BOUND = 1,
  EC_DYNAMIC_UNBOUND = 2
} ec_dynamism;

enum {
  EC_TENSOR_READONLY = 1, /* data must not be written: a constant, or a caller's array */
  EC_TENSOR_MARKED = 2    /* while a set of tensors is looked through (runtime/load_code.c) */
};

typedef struct ec_tensor {
  void *data;                       /* NULL: no storage now; then numel must be 0 to be read */
  size_t capacity;                  /* bytes at `data` that this tensor may use */
  int64_t numel;                    /* product of sizes */
  int64_t numel_bound;              /* elements that a DYNAMIC_BOUND tensor may grow to */
  uint8_t dtype;                    /* an ec_dtype */
  uint8_t rank;                     /* fixed for a tensor's life */
  uint8_t dynamism;                 /* an ec_dynamism */
  uint8_t flags;                    /* EC_TENSOR_* */
  uint8_t dim_order[EC_MAX_RANK];   /* outermost dimension first; fixed for a tensor's life */
  int64_t sizes[EC_MAX_RANK];
  int64_t strides[EC_MAX_RANK];     /* in elements, from sizes and dim_order: always dense */
  struct ec_storage *storage;       /* heap blocks of an unbound tensor, newest first */
} ec_tensor;

static inline ec_dtype ec_tensor_dtype(const ec_tensor *t) { return (ec_dtype)t->dtype; }
static inline size_t ec_tensor_nbytes(const ec_tensor *t) {
  return (size_t)t->numel * ec_dtype_size((ec_dtype)t->dtype);
}

/* numel of sizes; false where a size is negative or the product overflows. */
bool ec_numel(const int64_t *sizes, size_t rank, int64_t *numel);

/* Fills strides of a dense layout: last of dim_order has stride 1, a 0-sized dimension counts 1. */
void ec_strides(const int64_t *sizes, const uint8_t *dim_order, size_t rank, int64_t *strides);

/* Fills everything but data and dynamism (static); dim_order NULL means 0, 1, 2, ...
 * Fails on rank > EC_MAX_RANK, negative sizes, overflow, or a dim_order that is no permutation. */
ec_status ec_tensor_init(ec_tensor *t, ec_dtype dtype, size_t rank, const int64_t *sizes,
                         const uint8_t *dim_order, ec_error *err);

/* Whether it has these sizes. */
bool ec_tensor_has_sizes(const ec_tensor *t, size_t rank, const int64_t *sizes);

/* Gives the tensor new sizes of the same rank as far as its dynamism allows, without a look at its
 * storage. Fails with NotSupported and leaves the tensor as it was. */
ec_status ec_tensor_set_sizes(ec_tensor *t, size_t rank, const int64_t *sizes, ec_error *err);

/* Gives the tensor new sizes of the same rank. STATIC: must be equal. DYNAMIC_BOUND: numel within
 * the bound. DYNAMIC_UNBOUND: storage grows. Afterwards data has room for numel elements, or the
 * call failed with NotSupported (shape) or MemoryAllocationFailed and left the tensor as it was. */
ec_status ec_tensor_resize(ec_tensor *t, size_t rank, const int64_t *sizes, ec_error *err);

/* Forgets where the data is. Heap blocks stay until trimmed: views may still point to them. */
void ec_tensor_drop_data(ec_tensor *t);
/* Frees all heap blocks but the newest, which the next resize uses again; `all`: that one too. */
void ec_tensor_trim(ec_tensor *t, bool all);
/* Bytes of heap blocks. */
size_t ec_tensor_heap(const ec_tensor *t);

/* Whether memory order is 0, 1, 2, ... (row-major). */
bool ec_tensor_is_contiguous(const ec_tensor *t);
/* Whether both have the same rank, and the same strides wherever a dimension is larger than 1. */
bool ec_tensor_same_layout(const ec_tensor *a, const ec_tensor *b);
bool ec_tensor_same_sizes(const ec_tensor *a, const ec_tensor *b);

/* "(2, 3)" for messages; `buffer` comes back. */
enum { EC_SHAPE_TEXT = 160 };
const char *ec_shape_text(const int64_t *sizes, size_t rank, char *buffer, size_t size);

#endif
