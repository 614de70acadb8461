/* The interface of operators in a plug-in, beside backend.h, whose arguments, statuses and host
 * table it shares.
 *
 * Programs call operators by name; a plug-in brings a table of them, each a schema and a function.
 * The table is static in a shared library, handed to executorch_c as a capsule named
 * EC_OPERATORS_CAPSULE by a tiny extension module, and found through the entry-point group
 * "executorch_c.operators" or registered by hand (executorch_c.register_operators(capsule)).
 *
 * Threads: `run` is called from any thread, by several methods at once, without the GIL. */
#ifndef EXECUTORCH_C_OPERATOR_H
#define EXECUTORCH_C_OPERATOR_H

#include "executorch_c/backend.h"

#define EC_OPERATOR_ABI_VERSION 1u
#define EC_OPERATORS_CAPSULE "executorch_c.operators"

/* Kinds of lists, beside the kinds of backend.h: `list` of ec_backend_arg holds the items, which
 * are tensors (or none), ints, doubles and bools. */
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

  /* args are those of the schema, outputs included, and have its kinds: number arguments (int,
   * float, bool) have their own kind, Scalars that of the program, None is EC_BACKEND_NONE. dtypes,
   * ranks and shapes are the program's: check them. Tensors that are read have data.
   *
   * Give each output its shape with host->resize before you touch it: only then is its memory sure
   * to be there, which holds what it held. host->named_data and program_open see the program that
   * calls. Return EC_BACKEND_OK, or what host->fail gives. */
  uint32_t (*run)(const ec_operator *self, const ec_host *host, ec_host_call *call,
                  ec_backend_arg *args, size_t count);
  void *user;
};

typedef struct ec_operators {
  uint32_t abi_version;  /* EC_OPERATOR_ABI_VERSION */
  size_t struct_size;    /* sizeof(ec_operators) as compiled */
  size_t row_size;       /* sizeof(ec_operator) as compiled */
  const char *origin;    /* whose they are, for people: "mypackage 1.0" */
  const ec_operator *rows;
  size_t count;
} ec_operators;

#endif
