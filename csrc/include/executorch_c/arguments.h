/* Helpers of plug-in operators: checks of arguments, temporary memory, loops on threads.
 *
 * `c` is a pointer to a struct with the members `host`, `call` and `args`, as EC_OPERATOR_RUN fills
 * it. Statuses are those of backend.h; messages are set. */
#ifndef EXECUTORCH_C_ARGUMENTS_H
#define EXECUTORCH_C_ARGUMENTS_H

#include <string.h>

#include "executorch_c/operator.h"

/* Sets the message of an invalid argument and returns its status. */
#define EC_ARG_FAIL(c, ...) EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_ARGUMENT, __VA_ARGS__)

/* Returns the number of elements. */
static inline int64_t ec_arg_count(const ec_backend_tensor *t) {
  int64_t count = 1;
  for (size_t d = 0; d < t->rank; d++) count *= t->sizes[d];
  return count;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Sets of dtypes. */
#define EC_ARG_SET(dtype) (UINT32_C(1) << (dtype))

/* Writes "uint8 or int8". */
static inline void ec_arg_set_names(uint32_t dtypes, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int32_t dtype = 0; dtype < 32; dtype++) {
    if (!(dtypes & EC_ARG_SET(dtype)) || !ec_backend_dtype_size(dtype)) continue;
    const char *parts[] = {used ? " or " : "", ec_backend_dtype_name(dtype)};
    for (int k = 0; k < 2; k++)
      for (const char *s = parts[k]; *s && used + 1 < size; s++) text[used++] = *s;
    text[used] = 0;
  }
}

/* True if the elements are in order; dimensions of one element may be anywhere. */
static inline bool ec_arg_is_row_major(const ec_backend_tensor *t) {
  int64_t stride = 1;
  for (size_t d = t->rank; d-- > 0; stride *= t->sizes[d] ? t->sizes[d] : 1)
    if (t->sizes[d] > 1 && t->strides[d] != stride) return false;
  return true;
}

/* Checks that argument `i` is a tensor with one of `dtypes`, and `rank` dimensions unless that is
 * negative. */
#define EC_ARG_CHECK(c, i, name, dtypes, rank)                                                     \
  ec_arg_check((c)->host, (c)->call, &(c)->args[i], name, dtypes, rank)
static inline uint32_t ec_arg_check(const ec_host *host, ec_host_call *call,
                                    const ec_backend_arg *arg, const char *name, uint32_t dtypes,
                                    int rank) {
  const ec_backend_tensor *t = &arg->as.tensor;
  char names[96];
  if (arg->kind != EC_BACKEND_TENSOR)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "'%s' is not a tensor", name);
  if (!ec_backend_dtype_size(t->dtype) || !(dtypes & EC_ARG_SET(t->dtype))) {
    ec_arg_set_names(dtypes, names, sizeof names);
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "'%s' has %s (ScalarType %d), expected %s",
                      name, ec_backend_dtype_name(t->dtype), t->dtype, names);
  }
  return rank < 0 || t->rank == rank
             ? (uint32_t)EC_BACKEND_OK
             : host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "'%s' has %u dimensions, expected %d",
                          name, (unsigned)t->rank, rank);
}

/* The same, for elements in order. Sets the tensor. */
#define EC_ARG_TENSOR(c, i, name, dtypes, rank, out)                                               \
  ec_arg_tensor((c)->host, (c)->call, &(c)->args[i], name, dtypes, rank, out)
static inline uint32_t ec_arg_tensor(const ec_host *host, ec_host_call *call,
                                     const ec_backend_arg *arg, const char *name, uint32_t dtypes,
                                     int rank, const ec_backend_tensor **out) {
  EC_BACKEND_TRY(ec_arg_check(host, call, arg, name, dtypes, rank));
  *out = &arg->as.tensor;
  return ec_arg_is_row_major(*out)
             ? (uint32_t)EC_BACKEND_OK
             : host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                          "'%s' is not contiguous: its last dimension is not the innermost", name);
}

/* The same for an output, 'out', which is resized. */
#define EC_ARG_OUTPUT(c, i, dtypes, rank, sizes, out)                                              \
  ec_arg_output((c)->host, (c)->call, &(c)->args[i], dtypes, rank, sizes, out)
static inline uint32_t ec_arg_output(const ec_host *host, ec_host_call *call, ec_backend_arg *arg,
                                     uint32_t dtypes, size_t rank, const int64_t *sizes,
                                     const ec_backend_tensor **out) {
  EC_BACKEND_TRY(host->resize(call, arg, rank, sizes));
  return ec_arg_tensor(host, call, arg, "out", dtypes, (int)rank, out);
}

/* Checks that a tensor has `count` elements. */
#define EC_ARG_COUNT(c, t, name, count) ec_arg_check_count((c)->host, (c)->call, t, name, count)
static inline uint32_t ec_arg_check_count(const ec_host *host, ec_host_call *call,
                                          const ec_backend_tensor *t, const char *name,
                                          int64_t count) {
  return ec_arg_count(t) == count ? (uint32_t)EC_BACKEND_OK
                                  : host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                                               "'%s' has %lld elements, expected %lld", name,
                                               (long long)ec_arg_count(t), (long long)count);
}

/* ---- memory, lists, loops -------------------------------------------------------------------- */

/* Sets memory until the end of the call, for `count` items and at least one byte. */
#define EC_ARG_SCRATCH(c, count, size, out)                                                        \
  ec_arg_scratch((c)->host, (c)->call, (int64_t)(count), size, out)
static inline uint32_t ec_arg_scratch(const ec_host *host, ec_host_call *call, int64_t count,
                                      size_t size, void *out) {
  size_t bytes;
  void *memory = NULL;
  if (count >= 0 && !__builtin_mul_overflow((size_t)count, size, &bytes) && bytes < SIZE_MAX / 2)
    memory = host->scratch(call, bytes + 1);
  memcpy(out, &memory, sizeof memory);
  return memory ? EC_BACKEND_OK
                : host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for %lld elements",
                             (long long)count);
}

/* An int[] argument: `count` items in [least, most]. */
typedef struct ec_arg_list {
  const char *name;
  size_t count;
  int64_t least, most;
  bool single; /* one item stands for all; the last one for a single dimension */
} ec_arg_list;

/* Reads argument `i`. */
#define EC_ARG_INTS(c, i, out, ...)                                                                \
  ec_arg_ints((c)->host, (c)->call, &(c)->args[i], &(const ec_arg_list){__VA_ARGS__}, out)
static inline uint32_t ec_arg_ints(const ec_host *host, ec_host_call *call,
                                   const ec_backend_arg *arg, const ec_arg_list *expected,
                                   int64_t *out) {
  const size_t length = arg->as.list.count, count = expected->count;
  const bool fills = expected->single && length && (length == 1 || count == 1);
  if (length != count && !fills)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "'%s' has %zu items, expected %zu",
                      expected->name, length, count);
  for (size_t d = 0; d < count; d++) {
    out[d] = arg->as.list.items[length == count ? d : length - 1].as.i;
    if (out[d] < expected->least || out[d] > expected->most)
      return host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                        "'%s' has the item %lld, expected %lld to %lld", expected->name,
                        (long long)out[d], (long long)expected->least, (long long)expected->most);
  }
  return EC_BACKEND_OK;
}

/* Runs fn(user, begin, end) over [0, count), possibly on several threads; `cost` is the number of
 * multiply-adds, or of elements read, of one item. */
#define EC_ARG_PARALLEL(c, count, cost, fn, user)                                                  \
  ec_arg_parallel((c)->host, (c)->call, count, cost, fn, user)
static inline void ec_arg_parallel(const ec_host *host, ec_host_call *call, int64_t count,
                                   double cost, void (*fn)(void *user, size_t begin, size_t end),
                                   void *user) {
  const double least = 1 << 14; /* cost of a task */
  const size_t grain = cost < least ? (size_t)(least / (cost + 1)) : 1;
  if (count > 0) host->parallel_for(call, (size_t)count, grain ? grain : 1, fn, user);
}

#endif
