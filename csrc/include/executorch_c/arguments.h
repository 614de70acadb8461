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
  const size_t given = arg->as.list.count, count = expected->count;
  const bool fills = expected->single && given && (given == 1 || count == 1);
  if (given != count && !fills)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "'%s' has %zu items, expected %zu",
                      expected->name, given, count);
  for (size_t d = 0; d < count; d++) {
    out[d] = arg->as.list.items[given == count ? d : given - 1].as.i;
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
