/* Operators: the rows of ops.def, and those registered at run time. Each schema is parsed once.
 * runtime/load/code.c checks calls against it, messages quote it, and `executorch_c.operators()`
 * lists it. */
#ifndef EC_KERNELS_OP_H
#define EC_KERNELS_OP_H

#include "core/arena.h"
#include "core/value.h"

struct ec_call;
typedef ec_status (*ec_kernel_fn)(struct ec_call *call);

/* Schema types of arguments. */
typedef enum ec_arg_type {
  EC_ARG_TENSOR,
  EC_ARG_INT,    /* int, SymInt, ScalarType, MemoryFormat, Layout, Device index */
  EC_ARG_DOUBLE, /* float: an Int value is widened */
  EC_ARG_BOOL,
  EC_ARG_STRING,
  EC_ARG_SCALAR
} ec_arg_type;

/* The cost class of a family of kernels (families.def). */
typedef enum ec_op_work { EC_OP_NEITHER, EC_OP_LINEAR, EC_OP_PRODUCT } ec_op_work;

/* What becomes of the numbers of an operator's arguments: ops.def. */
typedef enum ec_op_numbers {
  EC_NUMBERS_ROUNDS, /* of a registered operator, too */
  EC_NUMBERS_SAME,
  EC_NUMBERS_MOVES,
  EC_NUMBERS_PICKS,
  EC_NUMBERS_EXACT,
  EC_NUMBERS_SUMS,
  EC_NUMBERS_RANDOM
} ec_op_numbers;

/* The loop of a pointwise kernel: ops.def. The last ones are what a loop of float32 computes, from
 * its first operand and the others, if chains can. */
typedef enum ec_op_loop {
  EC_LOOP_NONE,
  EC_LOOP_LOOP,
  EC_LOOP_POWER,  /* none if the exponent is 0 or 1 */
  EC_LOOP_ADD,    /* with v[0].d of the parameters as a factor of the second operand */
  EC_LOOP_SUB,    /* the same */
  EC_LOOP_SUB_OF, /* the second operand minus the first: the factor is that of the first */
  EC_LOOP_MUL,
  EC_LOOP_DIV,
  EC_LOOP_CLAMP   /* between two bounds; of one bound, v[0].i says if it is the lower one */
} ec_op_loop;

enum { EC_MAX_OP_ARGS = 32 };

typedef struct ec_arg_spec {
  const char *name;
  uint8_t type;        /* an ec_arg_type */
  bool is_list;        /* Tensor[], int[2], ... */
  bool optional;       /* the whole argument may be None */
  bool item_optional;  /* Tensor?[]: items may be None */
  bool written;        /* (a!): the kernel writes to it */
  bool keyword;        /* after the '*' */
  bool is_out;         /* written and keyword-only: a result whose old contents do not matter */
  bool is_dtype;       /* an EC_ARG_INT that is a ScalarType */
} ec_arg_spec;

typedef struct ec_op {
  const char *name;    /* "aten::add.out" */
  const char *schema;  /* complete, as in ops.def */
  const char *family;  /* folder of kernels/, or "custom" */
  ec_op_work work;     /* its family's; EC_OP_NEITHER for a registered operator */
  uint8_t numbers;     /* an ec_op_numbers */
  uint8_t loop;        /* an ec_op_loop */
  const char *terms;   /* of its sums, as in ops.def; "NONE": no sums. NULL in small builds, and for
                          a registered operator */
  const char *origin;  /* "builtin", "python", or the name of a plug-in */
  ec_kernel_fn fn;
  ec_dtype_set dtypes; /* of its main argument */
  void *user;          /* of a registered operator, for fn */
  size_t nargs;        /* arguments of the schema, `out`s included */
  size_t returns;      /* return values of the schema */
  size_t returned_outs; /* the written ones among them: Tensor(a!) */
  bool custom;         /* registered: counted by ec_op_acquire and ec_op_release */
  bool returns_scalar; /* one more value after the arguments receives a number */
  bool makes_view;     /* et_view: the `out` becomes a view of `self` and is not written */
  ec_arg_spec args[EC_MAX_OP_ARGS];
} ec_op;

/* The rows of ops.def, sorted by name. */
const ec_op *ec_op_find(const char *name); /* "aten::add.out"; NULL if missing */
size_t ec_op_count(void);
const ec_op *ec_op_at(size_t index);

/* Parses ops.def. Every owner of a runtime calls it once, before any other function here. Fails
 * (Internal, naming the row) only for an invalid row, which a test excludes. */
ec_status ec_ops_init(ec_error *err);

/* ---- operators registered at run time ----
 *
 * They precede ops.def, newest first: unregistering an operator that overrides another restores the
 * other. Loaded methods keep the operators found at loading. All functions may be called from any
 * thread; retain and release are called without a lock. */

typedef struct ec_op_def {
  const char *schema;          /* copied; must pass ec_schema_check_custom */
  const char *origin;          /* copied */
  ec_kernel_fn fn;
  void *user;                  /* for fn: c->op->user */
  void (*retain)(void *user);  /* adds a holder: the registry, or a method. May be NULL */
  void (*release)(void *user); /* removes a holder. May be NULL */
} ec_op_def;

/* Registers an operator. Fails with InvalidArgument (schema), RegistrationExists (an operator has
 * this name, and `override` is false) or MemoryAllocationFailed; then nothing is retained.
 * Operators of executorch_prim, and those with other arguments, cannot be overridden. */
ec_status ec_op_register(const ec_op_def *def, bool override, ec_error *err);

/* Unregisters the newest operator of this name. Errors: NotFound; InvalidState for rows of
 * ops.def. */
ec_status ec_op_unregister(const char *name, ec_error *err);
/* Unregisters all operators that run `fn` with a user that `matches`. */
void ec_op_unregister_all(ec_kernel_fn fn, bool (*matches)(void *user, void *arg), void *arg);

/* True if an operator that runs `fn` with this user is registered. */
bool ec_op_is_registered(ec_kernel_fn fn, const void *user);

/* Returns the `out` arguments of an operator: bit i for argument i. 0 for an unknown operator. */
uint32_t ec_op_outs(const char *name);
/* True if an operator of this name exists, of any origin. */
bool ec_op_exists(const char *name);
/* Acquires the operator of this name; NULL if missing. Release it with ec_op_release. */
const ec_op *ec_op_acquire(const char *name);
void ec_op_release(const ec_op *op); /* NULL is allowed */

/* All operators that lookup can currently find, sorted by name. They live until deinit. */
typedef struct ec_op_list {
  const ec_op **items;
  size_t count;
} ec_op_list;
ec_status ec_op_list_init(ec_op_list *list, ec_error *err);
void ec_op_list_deinit(ec_op_list *list);

#endif
