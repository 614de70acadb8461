/* executorch_prim: numbers of the program (symbolic sizes, loop counters). */
#include "kernels/call.h"

ec_status ec_op_prim_neg(ec_call *c) {
  ec_scalar a = ec_arg_scalar(c, 0);
  if (a.kind == EC_KIND_DOUBLE) a.as.d = -a.as.d;
  else a = (ec_scalar){EC_KIND_INT, {.i = (int64_t)(0 - (uint64_t)ec_scalar_int(a))}};
  return ec_call_return(c, a);
}
