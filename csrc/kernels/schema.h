/* Operator schemas in torch's notation: "ns::name.overload(Tensor x, int n=3, *, Tensor(a!) out) ->
 * Tensor(a!)". They come from ops.def and from registrations, so any text is parsed safely. Errors
 * name the character that the parser cannot accept. */
#ifndef EC_KERNELS_SCHEMA_H
#define EC_KERNELS_SCHEMA_H

#include "kernels/op.h"

enum {
  EC_MAX_SCHEMA = 8192, /* characters of a schema */
  EC_MAX_OP_NAME = 255  /* characters of "ns::name.overload" */
};

/* Fills name, schema, arguments and returns of `op` and zeroes the rest. `schema` must outlive
 * `op`, as must `names`: strlen(schema) + 1 bytes for the names of the operator and its arguments.
 * Fails with InvalidArgument. */
ec_status ec_schema_parse(const char *schema, char *names, ec_op *op, ec_error *err);

/* Checks that programs can call it as a custom operator: it writes its results to `out` arguments,
 * and a program's values can represent all argument types. */
ec_status ec_schema_check_custom(const ec_op *op, ec_error *err);

#endif
