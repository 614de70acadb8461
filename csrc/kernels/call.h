/* One call of a kernel: its arguments by position in the schema.
 *
 * A kernel has four steps: arguments, checks, resize the output, run a loop. Kinds of arguments
 * were checked against the schema when the method was loaded, and the executor has checked that
 * tensors that are read have data; so accessors are plain reads. */
#ifndef EC_KERNELS_CALL_H
#define EC_KERNELS_CALL_H

#include "core/threads.h"
#include "kernels/op.h"

struct ec_method;

/* Where a method's stream of random numbers is: kernels/random/random.h. */
typedef struct ec_random {
  uint64_t seed, next;
} ec_random;

typedef struct ec_call {
  ec_value **args; /* op->nargs of them, then what the program adds for return values */
  const ec_op *op;
  ec_arena *scratch; /* temporary memory, reset after each instruction */
  ec_error *err;
  bool reference; /* kernels="reference": run the plain loop, no fast path */
  const struct ec_method *method; /* who calls, for plug-ins (runtime/operator.c); NULL in tests */
  ec_random *random; /* the method's generator */
  ec_threads *threads; /* for large loops; NULL: one, always where `reference` */
} ec_call;

typedef struct ec_ints {
  const int64_t *v;
  size_t n;
} ec_ints;

typedef struct ec_tensors {
  ec_value **items; /* Tensor values; None values too in a Tensor?[] */
  size_t n;
} ec_tensors;

static inline ec_tensor *ec_arg_tensor(const ec_call *c, size_t i) { return c->args[i]->as.tensor; }

static inline bool ec_arg_is_none(const ec_call *c, size_t i) {
  return c->args[i]->kind == EC_KIND_NONE;
}

/* NULL where the argument is None. */
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

/* NULL where the argument is None. */
static inline const char *ec_arg_string(const ec_call *c, size_t i) {
  return ec_arg_is_none(c, i) ? NULL : c->args[i]->as.string;
}

static inline ec_scalar ec_arg_scalar(const ec_call *c, size_t i) {
  return ec_value_scalar(c->args[i]);
}

/* The numbers of an int list, copied to scratch (their slots can change between instructions).
 * None gives {NULL, 0}. Fails only without memory. */
ec_status ec_arg_ints(ec_call *c, size_t i, ec_ints *out);

/* None gives {NULL, 0}. */
ec_tensors ec_arg_tensors(const ec_call *c, size_t i);

/* The tensor at `i` of a list, NULL for None. */
static inline ec_tensor *ec_list_tensor(ec_tensors list, size_t i) {
  return list.items[i]->kind == EC_KIND_NONE ? NULL : list.items[i]->as.tensor;
}

/* Runs fn over [0, count) in pieces of at least `grain`, on the method's threads where there are
 * enough (core/threads.h). Results must not depend on pieces. Scratch memory is taken before. */
static inline void ec_parallel_for(const ec_call *c, size_t count, size_t grain, ec_range_fn fn,
                                   void *user) {
  ec_threads_run(c->threads, count, grain, fn, user);
}

/* Where piece `i` of [0, n) begins when it is cut into equal ones; piece `pieces` begins at n. */
static inline int64_t ec_share(int64_t n, int64_t i, int64_t pieces) {
  int64_t rest = n % pieces;
  return n / pieces * i + (i < rest ? i : rest);
}

/* Scratch memory for `count` elements of `size` bytes, zeroed. */
ec_status ec_call_scratch(ec_call *c, size_t count, size_t size, void *out);

/* A tensor in scratch memory, of another dtype, with the shape and layout of `like` (which may be
 * `out`). */
ec_status ec_call_like(ec_call *c, const ec_tensor *like, ec_dtype dtype, ec_tensor *out);

/* Resizes an output; the sentence names the argument. */
ec_status ec_call_resize(ec_call *c, size_t i, size_t rank, const int64_t *sizes);

/* Writes the return value of an operator that returns a number into the slot behind its
 * arguments. */
ec_status ec_call_return(ec_call *c, ec_scalar result);

/* Fails with InvalidArgument: "argument 'name': " and the sentence. */
ec_status ec_call_fail(ec_call *c, size_t i, const char *fmt, ...) EC_PRINTF(3, 4);

/* Checks that an argument's dtype is in the set, naming found and expected. */
ec_status ec_call_check_dtype(ec_call *c, size_t i, ec_dtype_set expected);

/* Checks that argument `i` (no None) has the dtype of argument `as`. */
ec_status ec_call_check_same_dtype(ec_call *c, size_t i, size_t as);

/* Checks that a tensor's rank is in [least, most]. */
ec_status ec_call_check_rank(ec_call *c, size_t i, size_t least, size_t most);

/* Wraps a dimension in [-rank, rank) (rank 0 counts as 1, as in eager). */
ec_status ec_call_wrap_dim(ec_call *c, int64_t dim, size_t rank, size_t *out);

#endif
