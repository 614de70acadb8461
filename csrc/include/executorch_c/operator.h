/* The interface of operators in a plug-in. Arguments, statuses and the host table are those of
 * backend.h.
 *
 * Programs call operators by name. A plug-in provides a static table of them, each with a schema
 * and a function. A small extension module passes it to executorch_c as a capsule named
 * EC_OPERATORS_CAPSULE. The module is found through the entry-point group "executorch_c.operators"
 * or registered explicitly (executorch_c.register_operators(capsule)).
 *
 * Threads: `run` is called from any thread, by several methods at once, without the GIL. */
#ifndef EXECUTORCH_C_OPERATOR_H
#define EXECUTORCH_C_OPERATOR_H

#include "executorch_c/backend.h"

#define EC_OPERATOR_ABI_VERSION 1u
#define EC_OPERATORS_CAPSULE "executorch_c.operators"

/* Kinds of lists, in addition to the kinds of backend.h. `list` of ec_backend_arg holds the items:
 * tensors (or none), ints, doubles and bools. */
enum {
  EC_OPERATOR_BOOL_LIST = 6,
  EC_OPERATOR_DOUBLE_LIST = 7,
  EC_OPERATOR_INT_LIST = 8,
  EC_OPERATOR_TENSOR_LIST = 9
};

typedef struct ec_operator ec_operator;
struct ec_operator {
  /* An out variant in torch's notation:
   * "ns::name.out(Tensor x, float alpha=1, *, Tensor(a!) out) -> Tensor(a!)". */
  const char *schema;

  /* args are those of the schema, outputs included. Number arguments (int, float, bool) have the
   * schema's kind, Scalars the program's; None is EC_BACKEND_NONE. dtypes, ranks and shapes are the
   * program's: check them. Tensors that are read have data.
   *
   * Set the shape of each output with host->resize before using its data: its memory may not exist
   * earlier. The memory keeps its previous contents. host->named_data and program_open refer to the
   * calling program. Return EC_BACKEND_OK, or the result of host->fail. */
  uint32_t (*run)(const ec_operator *self, const ec_host *host, ec_host_call *call,
                  ec_backend_arg *args, size_t count);
  void *user;
};

typedef struct ec_operators {
  uint32_t abi_version;  /* EC_OPERATOR_ABI_VERSION */
  size_t struct_size;    /* sizeof(ec_operators) as compiled */
  size_t row_size;       /* sizeof(ec_operator) as compiled */
  const char *origin;    /* owner, for display: "mypackage 1.0" */
  const ec_operator *rows;
  size_t count;
} ec_operators;

/* The initialiser of an ec_operators struct with the array `table`. */
#define EC_OPERATORS(table, owner)                                                                 \
  {                                                                                                \
    .abi_version = EC_OPERATOR_ABI_VERSION, .struct_size = sizeof(ec_operators),                   \
    .row_size = sizeof(ec_operator), .origin = (owner), .rows = (table),                           \
    .count = sizeof(table) / sizeof((table)[0])                                                    \
  }

/* Defines the `run` function `name` of an operator: it calls `function` with the address of a
 * `type` initialised with the host, the call and the arguments, as many as the schema has. */
#define EC_OPERATOR_RUN(name, function, type)                                                      \
  static uint32_t name(const ec_operator *self, const ec_host *host, ec_host_call *call,           \
                       ec_backend_arg *args, size_t count) {                                       \
    (void)self;                                                                                    \
    (void)count;                                                                                   \
    const type operator_call = {host, call, args};                                                 \
    return function(&operator_call);                                                               \
  }

#endif
