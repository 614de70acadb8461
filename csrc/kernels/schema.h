/* Schemas of operators: "ns::name.overload(Tensor x, int n=3, *, Tensor(a!) out) -> Tensor(a!)", in
 * torch's notation. They come from ops.def and from whoever registers an operator: any text is
 * parsed safely, and what is not understood is refused with the character where that is. */
#ifndef EC_KERNELS_SCHEMA_H
#define EC_KERNELS_SCHEMA_H

#include "kernels/op.h"

enum {
  EC_MAX_SCHEMA = 8192, /* characters of a schema */
  EC_MAX_OP_NAME = 255  /* characters of "ns::name.overload" */
};

/* Fills name, schema, arguments and returns of `op`; all else is zero. `schema` must outlive it, as
 * must `names`: strlen(schema) + 1 bytes that names of operator and arguments are written to.
 * Fails with InvalidArgument. */
ec_status ec_schema_parse(const char *schema, char *names, ec_op *op, ec_error *err);

/* Whether programs can call it as a custom operator: it writes its results to `out` arguments, and
 * has no arguments of types that no value of a program has. */
ec_status ec_schema_check_custom(const ec_op *op, ec_error *err);

#endif
