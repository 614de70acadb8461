/* Shapes, dense strides and resizing. */
#include "core/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/budget.h"
#include "core/checked.h"
#include "core/small.h"

bool ec_numel(const int64_t *sizes, size_t rank, int64_t *numel) {
  int64_t n = 1;
  bool zero = false, ok = true;
  for (size_t d = 0; d < rank; d++) {
    if (sizes[d] < 0) return false;
    if (sizes[d] == 0) zero = true;
    else ok = ok && ec_mul_i64(n, sizes[d], &n);
  }
  *numel = zero ? 0 : n;
  return ok;
}

void ec_strides(const int64_t *sizes, const uint8_t *dim_order, size_t rank, int64_t *strides) {
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    size_t d = dim_order[i];
    strides[d] = stride;
    if (sizes[d] != 0) stride *= sizes[d];
  }
}

static bool is_permutation(const uint8_t *dim_order, size_t rank) {
  unsigned seen = 0;
  for (size_t i = 0; i < rank; i++) {
    if (dim_order[i] >= rank || seen >> dim_order[i] & 1u) return false;
    seen |= 1u << dim_order[i];
  }
  return true;
}

ec_status ec_tensor_init(ec_tensor *t, ec_dtype dtype, size_t rank, const int64_t *sizes,
                         const uint8_t *dim_order, ec_error *err) {
  char text[EC_SHAPE_TEXT];
  memset(t, 0, sizeof *t);
  if (rank > EC_MAX_RANK)
    return ec_fail(err, EC_NOT_SUPPORTED, "rank %zu, at most %d dimensions are supported", rank,
                   EC_MAX_RANK);
  if (!ec_dtype_size(dtype))
    return ec_fail(err, EC_NOT_SUPPORTED, "dtype %s is not supported", ec_dtype_name(dtype));
  int64_t numel;
  size_t nbytes;
  if (!ec_numel(sizes, rank, &numel) ||
      !ec_mul_size((size_t)numel, ec_dtype_size(dtype), &nbytes) || nbytes > EC_MAX_BYTES)
    return ec_fail(err, EC_INVALID_PROGRAM, "impossible shape %s",
                   ec_shape_text(sizes, rank, text, sizeof text));
  for (size_t d = 0; d < rank; d++) t->dim_order[d] = dim_order ? dim_order[d] : (uint8_t)d;
  if (!is_permutation(t->dim_order, rank))
    return ec_fail(err, EC_INVALID_PROGRAM, "dim_order is not a permutation of 0..%zu", rank - 1);
  t->dtype = (uint8_t)dtype;
  t->rank = (uint8_t)rank;
  t->numel = t->numel_bound = numel;
  memcpy(t->sizes, sizes, rank * sizeof *sizes);
  ec_strides(t->sizes, t->dim_order, rank, t->strides);
  return EC_OK;
}

/* A heap block of an unbound tensor; its elements start EC_ALIGN bytes after the header. Older
 * blocks live until the call ends, because views of the tensor may point to them. */
struct ec_storage {
  struct ec_storage *older;
  size_t size;
};

static void *storage_bytes(struct ec_storage *storage) { return (char *)storage + EC_ALIGN; }

/* Grows by half, so that appending loops stay linear. check_sizes has checked the elements: their
 * bytes, and half as many more with the header, are below SIZE_MAX. */
static ec_status grow_data(ec_tensor *t, int64_t numel, ec_error *err) {
  size_t nbytes = (size_t)numel * ec_dtype_size((ec_dtype)t->dtype);
  assert(nbytes <= EC_MAX_BYTES);
  if (t->data && nbytes <= t->capacity) return EC_OK;
  if (!t->storage || nbytes > t->storage->size) {
    if (t->storage && nbytes < t->storage->size + t->storage->size / 2)
      nbytes = t->storage->size + t->storage->size / 2;
    if (!EC_IS_SMALL && !ec_budget_grow(nbytes))
      return ec_fail_hint(err, EC_MEMORY_ALLOCATION_FAILED, EC_HINT_MAX_BYTES,
                          "no %zu bytes for a tensor without a bound, unless they are allowed",
                          nbytes);
    assert(nbytes <= SIZE_MAX - EC_ALIGN);
    struct ec_storage *storage = ec_alloc_zeroed(nbytes + EC_ALIGN);
    if (!storage)
      return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for %zu bytes", nbytes);
    *storage = (struct ec_storage){t->storage, nbytes};
    if (t->data) memcpy(storage_bytes(storage), t->data, ec_tensor_nbytes(t));
    t->storage = storage;
  }
  t->data = storage_bytes(t->storage);
  t->capacity = t->storage->size;
  t->flags = 0;
  return EC_OK;
}

void ec_tensor_drop_data(ec_tensor *t) {
  t->flags = 0;
  t->data = NULL;
  t->capacity = 0;
}

void ec_tensor_trim(ec_tensor *t, bool all) {
  struct ec_storage **at = &t->storage;
  if (*at && !all) at = &(*at)->older;
  while (*at) {
    struct ec_storage *older = (*at)->older;
    ec_free(*at);
    *at = older;
  }
}

size_t ec_tensor_heap(const ec_tensor *t) {
  size_t n = 0;
  for (const struct ec_storage *s = t->storage; s; s = s->older) n += s->size;
  return n;
}

/* Explains why `sizes` are refused. It is separate from check_sizes so that only failures format
 * the text. */
static ec_status refuse_sizes(const ec_tensor *t, size_t rank, const int64_t *sizes, int64_t numel,
                              ec_error *err) {
  char now[EC_SHAPE_TEXT], want[EC_SHAPE_TEXT];
  ec_shape_text(t->sizes, t->rank, now, sizeof now);
  ec_shape_text(sizes, rank < EC_MAX_RANK ? rank : EC_MAX_RANK, want, sizeof want);
  if (rank != t->rank)
    return ec_fail(err, EC_NOT_SUPPORTED, "shape %s has another rank than the planned %s", want,
                   now);
  if (numel < 0) return ec_fail(err, EC_NOT_SUPPORTED, "impossible shape %s", want);
  if (t->dynamism == EC_STATIC)
    return ec_fail(err, EC_NOT_SUPPORTED, "shape %s, but the program fixes it to %s", want, now);
  return ec_fail(err, EC_NOT_SUPPORTED,
                 "shape %s has %" PRId64 " elements, the program's upper bound is %" PRId64, want,
                 numel, t->numel_bound);
}

static ec_status check_sizes(const ec_tensor *t, size_t rank, const int64_t *sizes, int64_t *numel,
                             ec_error *err) {
  size_t nbytes;
  if (rank != t->rank) return refuse_sizes(t, rank, sizes, 0, err);
  if (!ec_numel(sizes, rank, numel) ||
      !ec_mul_size((size_t)*numel, ec_dtype_size((ec_dtype)t->dtype), &nbytes) ||
      nbytes > EC_MAX_BYTES)
    return refuse_sizes(t, rank, sizes, -1, err);
  if (t->dynamism == EC_STATIC || (t->dynamism == EC_DYNAMIC_BOUND && *numel > t->numel_bound))
    return refuse_sizes(t, rank, sizes, *numel, err);
  return EC_OK;
}

bool ec_tensor_has_sizes(const ec_tensor *t, size_t rank, const int64_t *sizes) {
  if (rank != t->rank) return false;
  return rank == 0 || memcmp(t->sizes, sizes, rank * sizeof *sizes) == 0; /* NULL for rank 0 */
}

static void set_sizes(ec_tensor *t, const int64_t *sizes, int64_t numel) {
  assert(t->rank); /* the sizes of rank 0 are always the same */
  memcpy(t->sizes, sizes, t->rank * sizeof *sizes);
  t->numel = numel;
  ec_strides(t->sizes, t->dim_order, t->rank, t->strides);
}

ec_status ec_tensor_set_sizes(ec_tensor *t, size_t rank, const int64_t *sizes, ec_error *err) {
  int64_t numel;
  if (ec_tensor_has_sizes(t, rank, sizes)) return EC_OK;
  EC_TRY(check_sizes(t, rank, sizes, &numel, err));
  set_sizes(t, sizes, numel);
  return EC_OK;
}

ec_status ec_tensor_resize(ec_tensor *t, size_t rank, const int64_t *sizes, ec_error *err) {
  bool same = ec_tensor_has_sizes(t, rank, sizes);
  int64_t numel = t->numel;
  if (!same) EC_TRY(check_sizes(t, rank, sizes, &numel, err));
  if (t->dynamism == EC_DYNAMIC_UNBOUND) EC_TRY(grow_data(t, numel, err));
  if ((size_t)numel > t->capacity / ec_dtype_size((ec_dtype)t->dtype))
    return ec_fail(err, EC_INVALID_STATE, "no storage: %zu bytes for %" PRId64 " elements of %s",
                   t->capacity, numel, ec_dtype_name((ec_dtype)t->dtype));
  if (!same) set_sizes(t, sizes, numel);
  return EC_OK;
}

bool ec_tensor_is_contiguous(const ec_tensor *t) {
  for (size_t d = 0; d < t->rank; d++)
    if (t->dim_order[d] != d) return false;
  return true;
}

bool ec_tensor_same_layout(const ec_tensor *a, const ec_tensor *b) {
  if (a->rank != b->rank) return false;
  for (size_t d = 0; d < a->rank; d++)
    if (a->strides[d] != b->strides[d] && (a->sizes[d] > 1 || b->sizes[d] > 1)) return false;
  return true;
}

bool ec_tensor_same_sizes(const ec_tensor *a, const ec_tensor *b) {
  return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

const char *ec_shape_text(const int64_t *sizes, size_t rank, char *buffer, size_t size) {
  size_t at = 0;
  for (size_t d = 0; d < rank && at < size; d++) {
    int n = snprintf(buffer + at, size - at, "%s%" PRId64, d ? ", " : "(", sizes[d]);
    assert(n > 0); /* numbers have no encoding that could fail */
    at += (size_t)n;
  }
  if (at < size) snprintf(buffer + at, size - at, rank == 0 ? "()" : rank == 1 ? ",)" : ")");
  return buffer;
}
