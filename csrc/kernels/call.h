/* One call of a kernel: its arguments by position in the schema.
 *
 * A kernel has four steps: arguments, checks, resize the output, run a loop. Accessors are plain
 * reads: loading has checked the kinds of arguments against the schema, and the executor has
 * checked that tensors to be read have data. */
#ifndef EC_KERNELS_CALL_H
#define EC_KERNELS_CALL_H

#include "core/threads.h"
#include "kernels/op.h"

struct ec_method;
struct ec_kept;
struct ec_record;
struct ec_joined;
struct ec_pages;
struct ec_kv_cache;

/* The position in a method's random stream: kernels/random/random.h. */
typedef struct ec_random {
  uint64_t seed, next;
} ec_random;

typedef struct ec_call {
  ec_value **args; /* op->nargs arguments, then the program's slots for return values */
  const ec_op *op;
  ec_arena *scratch; /* temporary memory, reset after each instruction */
  ec_error *err;
  bool reference; /* kernels="reference": plain loops only */
  /* the calling method, for plug-ins (runtime/operator.c); NULL in tests */
  const struct ec_method *method;
  ec_random *random; /* the method's generator */
  ec_threads *threads; /* for large loops; NULL: one thread, always so if `reference` */
  struct ec_kept *kept; /* packed weights of products (kernels/linalg/kept.h); NULL: none */
  struct ec_record *record; /* filled with the loops of the call (kernels/record.h); NULL: none */
  bool zero_rows; /* _softmax: rows of -inf become zeros, not NaN; where: of scores, its mask */
  struct ec_joined *joined; /* takes the loop of the call (pointwise/joined.h); NULL: it runs */
  struct ec_pages *pages; /* of the files of constants (kernels/pages.h); NULL: they stay */
  struct ec_kv_cache *kv_cache; /* the caller's (kernels/llm/kv_cache.h); NULL: none */
} ec_call;

/* Refuses float8 arguments of operators that neither move nor convert them: the tables of their
 * kernels have no row for it. To be called once, before the first call. */
ec_status ec_op_check_float8(const ec_op *op, ec_value *const *args, ec_error *err);

typedef struct ec_ints {
  const int64_t *v;
  size_t n;
} ec_ints;

typedef struct ec_tensors {
  ec_value **items; /* Tensor values; also None values in a Tensor?[] */
  size_t n;
} ec_tensors;

static inline ec_tensor *ec_arg_tensor(const ec_call *c, size_t i) { return c->args[i]->as.tensor; }

static inline bool ec_arg_is_none(const ec_call *c, size_t i) {
  return c->args[i]->kind == EC_KIND_NONE;
}

/* Returns NULL if the argument is None. */
static inline ec_tensor *ec_arg_opt_tensor(const ec_call *c, size_t i) {
  return ec_arg_is_none(c, i) ? NULL : c->args[i]->as.tensor;
}

static inline int64_t ec_arg_int(const ec_call *c, size_t i) { return ec_value_int(c->args[i]); }

static inline int64_t ec_arg_opt_int(const ec_call *c, size_t i, int64_t otherwise) {
  return ec_arg_is_none(c, i) ? otherwise : ec_arg_int(c, i);
}

static inline bool ec_arg_bool(const ec_call *c, size_t i) { return ec_value_bool(c->args[i]); }

static inline bool ec_arg_opt_bool(const ec_call *c, size_t i, bool otherwise) {
  return ec_arg_is_none(c, i) ? otherwise : ec_arg_bool(c, i);
}

static inline double ec_arg_double(const ec_call *c, size_t i) {
  return ec_value_double(c->args[i]);
}

static inline double ec_arg_opt_double(const ec_call *c, size_t i, double otherwise) {
  return ec_arg_is_none(c, i) ? otherwise : ec_arg_double(c, i);
}

/* Returns NULL if the argument is None. */
static inline const char *ec_arg_string(const ec_call *c, size_t i) {
  return ec_arg_is_none(c, i) ? NULL : c->args[i]->as.string;
}

static inline ec_scalar ec_arg_scalar(const ec_call *c, size_t i) {
  return ec_value_scalar(c->args[i]);
}

/* Copies the numbers of an int list to scratch (their slots can change between instructions).
 * None becomes {NULL, 0}. Fails only without memory. */
ec_status ec_arg_ints(ec_call *c, size_t i, ec_ints *out);

/* Returns the items of a tensor list; {NULL, 0} for None. */
ec_tensors ec_arg_tensors(const ec_call *c, size_t i);

/* Returns the tensor at `i` of a list, NULL for None. */
static inline ec_tensor *ec_list_tensor(ec_tensors list, size_t i) {
  return list.items[i]->kind == EC_KIND_NONE ? NULL : list.items[i]->as.tensor;
}

/* Runs fn over [0, count) in pieces of at least `grain`, on the method's threads if the loop is
 * large enough (core/threads.h). Results must not depend on the pieces. Allocate scratch memory
 * before. */
static inline void ec_parallel_for(const ec_call *c, size_t count, size_t grain, ec_range_fn fn,
                                   void *user) {
  ec_threads_run(c->threads, count, grain, fn, user);
}

/* Returns the start of piece `i` when [0, n) is split evenly; piece `pieces` starts at n. */
static inline int64_t ec_share(int64_t n, int64_t i, int64_t pieces) {
  int64_t rest = n % pieces;
  return n / pieces * i + (i < rest ? i : rest);
}

/* Allocates zeroed scratch memory for `count` elements of `size` bytes. */
ec_status ec_call_scratch(ec_call *c, size_t count, size_t size, void *out);

/* Creates a tensor in scratch memory with another dtype, and the shape and layout of `like` (which
 * may be `out`). */
ec_status ec_call_like(ec_call *c, const ec_tensor *like, ec_dtype dtype, ec_tensor *out);

/* Resizes an output; the error message names the argument. */
ec_status ec_call_resize(ec_call *c, size_t i, size_t rank, const int64_t *sizes);

/* Writes the return value of an operator that returns a number into the slot after its
 * arguments. */
ec_status ec_call_return(ec_call *c, ec_scalar result);

/* Fails with InvalidArgument and the message, prefixed by "argument 'name': ". */
ec_status ec_call_fail(ec_call *c, size_t i, const char *fmt, ...) EC_PRINTF(3, 4);

/* Checks that an argument's dtype is in the set. The message names found and expected. */
ec_status ec_call_check_dtype(ec_call *c, size_t i, ec_dtype_set expected);

/* Checks that argument `i` (not None) has the dtype of argument `as`. */
ec_status ec_call_check_same_dtype(ec_call *c, size_t i, size_t as);

/* Checks that a tensor's rank is in [least, most]. */
ec_status ec_call_check_rank(ec_call *c, size_t i, size_t least, size_t most);

/* Wraps a dimension in [-rank, rank) (rank 0 counts as 1, as in eager). */
ec_status ec_call_wrap_dim(ec_call *c, int64_t dim, size_t rank, size_t *out);

#endif
