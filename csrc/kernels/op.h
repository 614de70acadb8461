/* Operators: a row of ops.def each, and those registered at run time. The schema is parsed once; it
 * is what runtime/load_code.c checks calls against, what messages quote, and what
 * `executorch_c.operators()` shows. */
#ifndef EC_KERNELS_OP_H
#define EC_KERNELS_OP_H

#include "core/arena.h"
#include "core/value.h"

struct ec_call;
typedef ec_status (*ec_kernel_fn)(struct ec_call *call);

/* Schema types that arguments have. */
typedef enum ec_arg_type {
  EC_ARG_TENSOR,
  EC_ARG_INT,    /* int, SymInt, ScalarType, MemoryFormat, Layout, Device index */
  EC_ARG_DOUBLE, /* float: an Int value is widened */
  EC_ARG_BOOL,
  EC_ARG_STRING,
  EC_ARG_SCALAR
} ec_arg_type;

enum { EC_MAX_OP_ARGS = 32 };

typedef struct ec_arg_spec {
  const char *name;
  uint8_t type;        /* an ec_arg_type */
  bool is_list;        /* Tensor[], int[2], ... */
  bool optional;       /* the whole argument may be None */
  bool item_optional;  /* Tensor?[]: items may be None */
  bool written;        /* (a!): the kernel writes to it */
  bool keyword;        /* behind the '*' */
  bool is_out;         /* written and keyword-only: a result, whose old contents do not matter */
  bool is_dtype;       /* an EC_ARG_INT that is a ScalarType */
} ec_arg_spec;

typedef struct ec_op {
  const char *name;    /* "aten::add.out" */
  const char *schema;  /* whole, as in ops.def */
  const char *family;  /* folder of kernels/, "custom" */
  const char *origin;  /* "builtin", "python", or the name that a plug-in gave */
  ec_kernel_fn fn;
  ec_dtype_set dtypes; /* that its main argument may have */
  void *user;          /* of a registered one, for fn */
  size_t nargs;        /* arguments of the schema, `out`s included */
  size_t returns;      /* return values of the schema */
  size_t returned_outs; /* of these, written ones: Tensor(a!) */
  bool custom;         /* registered: counted by ec_op_acquire and ec_op_release */
  bool returns_scalar; /* one more value behind the arguments receives a number */
  bool makes_view;     /* et_view: the `out` is pointed into `self`, not written */
  ec_arg_spec args[EC_MAX_OP_ARGS];
} ec_op;

/* The rows of ops.def, sorted by name. */
const ec_op *ec_op_find(const char *name); /* "aten::add.out"; NULL where there is none */
size_t ec_op_count(void);
const ec_op *ec_op_at(size_t index);

/* Parses ops.def; called once, before any other function here, by every owner of a runtime.
 * Fails (Internal, naming the row) only when a row is wrong: a test covers it. */
ec_status ec_ops_init(ec_error *err);

/* ---- operators registered at run time ----
 *
 * They stand in front of ops.def, the newest first: one that was put in another's place gives it
 * back when it is unregistered. Loaded methods keep what they found when they were loaded. All
 * functions may be called from any thread; retain and release are called without a lock. */

typedef struct ec_op_def {
  const char *schema;          /* copied; ec_schema_check_custom says what it must be */
  const char *origin;          /* copied */
  ec_kernel_fn fn;
  void *user;                  /* for fn: c->op->user */
  void (*retain)(void *user);  /* one more user: the registry, and each taker. May be NULL */
  void (*release)(void *user); /* one less. May be NULL */
} ec_op_def;

/* Fails with InvalidArgument (schema), RegistrationExists (an operator has this name, and it is not
 * to `override` it) or MemoryAllocationFailed; nothing is retained then. Operators of
 * executorch_prim and those whose arguments are others cannot be overridden. */
ec_status ec_op_register(const ec_op_def *def, bool override, ec_error *err);

/* Unregisters the newest of that name. NotFound; InvalidState for rows of ops.def. */
ec_status ec_op_unregister(const char *name, ec_error *err);
/* Unregisters all that run `fn` for a user that `matches`. */
void ec_op_unregister_all(ec_kernel_fn fn, bool (*matches)(void *user, void *arg), void *arg);

/* Whether one that runs `fn` for this user is registered. */
bool ec_op_is_registered(ec_kernel_fn fn, const void *user);

/* Which arguments of the operator of that name are `out`s: bit i for argument i. 0 where there is
 * no such operator. */
uint32_t ec_op_outs(const char *name);
/* Whether there is an operator of that name, of whatever origin. */
bool ec_op_exists(const char *name);
/* The operator of that name, to be released; NULL where there is none. */
const ec_op *ec_op_acquire(const char *name);
void ec_op_release(const ec_op *op); /* NULL is allowed */

/* All operators that would be found now, sorted by name; they live until deinit. */
typedef struct ec_op_list {
  const ec_op **items;
  size_t count;
} ec_op_list;
ec_status ec_op_list_init(ec_op_list *list, ec_error *err);
void ec_op_list_deinit(ec_op_list *list);

#endif
