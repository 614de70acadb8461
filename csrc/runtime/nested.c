/* Programs inside payloads: opened, run and closed by delegates. */
#include "runtime/nested.h"

#include <string.h>

#include "core/alloc.h"
#include "runtime/load_cost.h"
#include "runtime/method.h"
#include "runtime/program_internal.h"

struct ec_host_program {
  ec_program *program;
  ec_method *method;
};

void ec_nested_close(ec_host_program *nested) {
  if (!nested) return;
  ec_method_free(nested->method);
  ec_program_free(nested->program);
  ec_free(nested);
}

static ec_status open_nested(ec_host_call *call, ec_source *source, const char *method,
                             ec_host_program *nested) {
  const ec_program_options options = {.verification = EC_VERIFY_INTERNAL_CONSISTENCY};
  const ec_method_options method_options = {.threads = ec_threads_count(call->threads)};
  EC_TRY(ec_program_open(&options, source, NULL, 0, &nested->program, call->err));
  nested->program->outer = call->program;
  return ec_method_load_nested(nested->program, method, &method_options, call->depth + 1,
                               &nested->method, call->err);
}

uint32_t ec_nested_open(ec_host_call *call, const void *data, size_t size,
                                  const char *method, ec_host_program **out) {
  enum { NESTED = 16000 }; /* the cost of opening, in bytes read */
  ec_source source;
  if (call->depth + 1 >= EC_MAX_NESTED_PROGRAMS)
    return (uint32_t)ec_fail(call->err, EC_NOT_SUPPORTED, "programs nested deeper than %d",
                             EC_MAX_NESTED_PROGRAMS);
  ec_host_program *nested = ec_alloc_zeroed(sizeof *nested);
  if (!nested) return (uint32_t)ec_fail(call->err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  ec_status status = ec_charge_reading(size + NESTED, call->err);
  if (status == EC_OK)
    status = ec_source_open_buffer(&source, data, size, NULL, NULL, call->err);
  if (status == EC_OK) status = open_nested(call, &source, method, nested);
  if (status != EC_OK) {
    ec_nested_close(nested);
    return (uint32_t)ec_fail_in(call->err, status, "nested program");
  }
  *out = nested;
  return EC_OK;
}

static ec_status bind_nested_input(ec_method *m, size_t index, const ec_backend_arg *arg,
                                   ec_error *err) {
  int64_t strides[EC_MAX_RANK];
  const ec_backend_tensor *t = &arg->as.tensor;
  switch (arg->kind) {
  case EC_BACKEND_TENSOR: {
    size_t item = ec_dtype_size((ec_dtype)t->dtype);
    for (size_t d = 0; d < t->rank; d++) strides[d] = t->strides[d] * (int64_t)item;
    ec_array array = {t->data, (ec_dtype)t->dtype, t->rank, t->sizes, strides};
    return ec_method_bind_input(m, index, &array, err);
  }
  case EC_BACKEND_STRING: return ec_method_bind_string(m, index, arg->as.string.data, err);
  case EC_BACKEND_INT:
    return ec_method_bind_scalar(m, index, (ec_scalar){EC_KIND_INT, {.i = arg->as.i}}, err);
  case EC_BACKEND_DOUBLE:
    return ec_method_bind_scalar(m, index, (ec_scalar){EC_KIND_DOUBLE, {.d = arg->as.d}}, err);
  case EC_BACKEND_BOOL:
    return ec_method_bind_scalar(m, index, (ec_scalar){EC_KIND_BOOL, {.b = arg->as.b}}, err);
  default: return ec_method_bind_none(m, index, err);
  }
}

/* Copies a result to the caller. Both sides are dense, in dim orders that must agree. */
static ec_status copy_nested_output(const ec_method *m, size_t index, ec_host_call *call,
                                    ec_backend_arg *arg) {
  const ec_value *v = ec_method_output(m, index);
  if (v->kind != EC_KIND_TENSOR || arg->kind != EC_BACKEND_TENSOR)
    return ec_fail(call->err, EC_NOT_SUPPORTED, "output %zu is a %s, expected a tensor", index,
                   ec_kind_name((ec_kind)v->kind));
  const ec_tensor *t = v->as.tensor;
  if (t->dtype != arg->as.tensor.dtype || t->rank != arg->as.tensor.rank ||
      memcmp(t->dim_order, arg->as.tensor.dim_order, t->rank) != 0)
    return ec_fail(call->err, EC_INVALID_PROGRAM, "output %zu is %s of rank %u, expected %s of %u",
                   index, ec_dtype_name(ec_tensor_dtype(t)), t->rank,
                   ec_dtype_name((ec_dtype)arg->as.tensor.dtype), arg->as.tensor.rank);
  EC_TRY((ec_status)ec_host_resize(call, arg, t->rank, t->sizes));
  if (t->numel) memmove(arg->as.tensor.data, t->data, ec_tensor_nbytes(t));
  return EC_OK;
}

/* Runs the method. Its events go to the call's trace, one level deeper. */
static ec_status execute_nested(ec_method *m, ec_host_call *call) {
  if (!call->trace) return ec_method_execute(m, call->err);
  m->trace = call->trace;
  ec_trace_nest(call->trace, 1);
  ec_status status = ec_method_execute(m, call->err);
  ec_trace_nest(call->trace, -1);
  m->trace = NULL;
  return status;
}

uint32_t ec_nested_run(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                                 size_t count) {
  ec_method *m = nested->method;
  size_t inputs = ec_method_input_count(m), outputs = ec_method_output_count(m);
  if (count != inputs + outputs)
    return (uint32_t)ec_fail(call->err, EC_INVALID_PROGRAM,
                             "%zu arguments, the nested program has %zu inputs and %zu outputs",
                             count, inputs, outputs);
  ec_status status = ec_method_lock(m, NULL, call->err);
  if (status != EC_OK) return (uint32_t)ec_fail_in(call->err, status, "nested program");
  for (size_t i = 0; i < inputs && status == EC_OK; i++)
    status = bind_nested_input(m, i, &args[i], call->err);
  if (status == EC_OK) status = execute_nested(m, call);
  for (size_t i = 0; i < outputs && status == EC_OK; i++)
    status = copy_nested_output(m, i, call, &args[inputs + i]);
  ec_method_unlock(m);
  return (uint32_t)(status == EC_OK ? EC_OK : ec_fail_in(call->err, status, "nested program"));
}
