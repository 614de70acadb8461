/* Calls that leave the runtime: their contexts, and resizing of their outputs. */
#include "runtime/host_call.h"

#include "runtime/arg.h"

ec_host_call ec_host_call_of(const ec_method *m, ec_arena *scratch, ec_error *err) {
  ec_host_call call = {.err = err, .scratch = scratch};
  if (!m) return call;
  call.method = m;
  call.program = m->program;
  call.threads = m->threads;
  call.trace = m->trace;
  call.depth = m->depth;
  call.options = &m->options;
  return call;
}

/* True if the tensor is another argument as well. The backend reads that one with its shape at the
 * beginning of the call. */
static bool is_repeated(const ec_host_call *call, const ec_backend_arg *arg) {
  const ec_instr *in = call->instr;
  return in && arg >= in->views && arg < in->views + in->count && in->repeated[arg - in->views];
}

uint32_t ec_host_resize(ec_host_call *call, ec_backend_arg *arg, size_t rank,
                        const int64_t *sizes) {
  if (arg->kind != EC_BACKEND_TENSOR)
    return (uint32_t)ec_fail(call->err, EC_INVALID_ARGUMENT, "an output is a %s, expected a tensor",
                             ec_kind_name((ec_kind)arg->kind));
  if (!arg->as.tensor.writable)
    return (uint32_t)ec_fail(call->err, EC_INVALID_PROGRAM, "an output is a constant");
  ec_value *value = arg->slot;
  if (is_repeated(call, arg) && !ec_tensor_has_sizes(value->as.tensor, rank, sizes))
    return (uint32_t)ec_fail(call->err, EC_INVALID_PROGRAM,
                             "an output whose shape changes is another argument, too");
  ec_status status = ec_tensor_resize(value->as.tensor, rank, sizes, call->err);
  ec_arg_view(value, arg);
  return (uint32_t)status;
}
