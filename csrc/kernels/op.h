/* Operators: one row of ops.def each. The row's schema is parsed once; it is what runtime/load.c
 * checks calls against, what messages quote, and what `executorch_c.operators()` shows. */
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

enum { EC_MAX_OP_ARGS = 20, EC_ARG_NAME = 24 };

typedef struct ec_arg_spec {
  char name[EC_ARG_NAME];
  uint8_t type;        /* an ec_arg_type */
  bool is_list;        /* Tensor[], int[2], ... */
  bool optional;       /* the whole argument may be None */
  bool item_optional;  /* Tensor?[]: items may be None */
  bool written;        /* (a!): the kernel writes to it */
} ec_arg_spec;

typedef struct ec_op {
  const char *name;    /* "aten::add.out" */
  const char *schema;  /* whole, as in ops.def */
  const char *family;  /* folder of kernels/ */
  ec_kernel_fn fn;
  ec_dtype_set dtypes; /* that its main argument may have */
  size_t nargs;        /* arguments of the schema, `out`s included */
  bool returns_scalar; /* one more value behind the arguments receives a number */
  bool makes_view;     /* et_view: the `out` is pointed into `self`, not written */
  ec_arg_spec args[EC_MAX_OP_ARGS];
} ec_op;

/* The operator of that name ("aten::add.out"), or NULL. */
const ec_op *ec_op_find(const char *name);
/* All operators, sorted by name. */
size_t ec_op_count(void);
const ec_op *ec_op_at(size_t index);

/* Parses ops.def; called once, before any other function here, by every owner of a runtime.
 * Fails (Internal, naming the row) only when a row is wrong: a test covers it. */
ec_status ec_ops_init(ec_error *err);

#endif
