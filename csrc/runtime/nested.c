/* Programs inside payloads: opened, run and closed by delegates. */
#include "runtime/nested.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "kernels/copy.h"
#include "runtime/load/cost.h"
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

void ec_nested_reset(ec_host_program *nested) {
  if (ec_method_lock(nested->method, NULL, NULL) != EC_OK) return;
  ec_method_reset(nested->method);
  ec_method_unlock(nested->method);
}

/* Returns the options of a nested method: its calls are computed as those of the outer method. */
static ec_method_options make_options(const ec_host_call *call) {
  const ec_method_options *outer = call->options;
  ec_method_options options = {.threads = ec_threads_count(call->threads)};
  if (!outer) return options;
  options.reference_kernels = outer->reference_kernels;
  options.delegation = outer->delegation;
  options.skipped_passes = outer->skipped_passes;
  options.backends_unknown = outer->backends_unknown;
  options.kv_cache = outer->kv_cache;
  options.max_bytes = outer->max_bytes;
  return options;
}

/* Adds the calls delegated at load of a method and of programs inside it. */
static void count_delegated(const ec_method *m, ec_nested_delegation *delegated) {
  for (size_t i = 0; i < ec_method_delegate_count(m); i++) {
    const size_t own = ec_method_delegated_calls(m, i);
    size_t inside;
    const char *backend = ec_method_nested_delegation(m, i, &inside);
    if (own + inside) delegated->backend = own ? ec_method_delegate_id(m, i) : backend;
    delegated->calls += own + inside;
  }
}

static ec_status open_nested(ec_host_call *call, ec_source *source, const char *method,
                             ec_host_program *nested) {
  const ec_program_options options = {.verification = EC_VERIFY_INTERNAL_CONSISTENCY};
  const ec_method_options method_options = make_options(call);
  EC_TRY(ec_program_open(&options, source, NULL, 0, &nested->program, call->err));
  nested->program->outer = call->program;
  EC_TRY(ec_method_load_nested(nested->program, method, &method_options, call->depth + 1,
                               &nested->method, call->err));
  count_delegated(nested->method, &call->delegated);
  call->uses_kv_cache |= nested->method->uses_kv_cache;
  return EC_OK;
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

/* One call of a nested program. `converts`: its arguments may have other dtypes and dim orders. */
typedef struct nested_run {
  ec_host_call *call;
  ec_method *method;
  bool converts;
} nested_run;

static ec_view view_argument(const ec_backend_tensor *t) {
  ec_view view = {.data = t->data, .dtype = (ec_dtype)t->dtype, .rank = t->rank};
  for (size_t d = 0; d < t->rank; d++) {
    view.sizes[d] = t->sizes[d];
    view.strides[d] = t->strides[d];
  }
  return view;
}

static void copy_converted(const nested_run *run, const ec_view *to, const ec_view *from) {
  const ec_call call = {
      .scratch = run->call->scratch, .err = run->call->err, .threads = run->call->threads};
  ec_copy_view(&call, to, from);
}

/* True if a conversion needs no check. Exporters narrow float64 and float32 inside payloads, which
 * rounds; a signed type of more bytes holds all integers of a smaller one. */
static bool may_convert(ec_dtype outer, ec_dtype inner, ec_dtype to, ec_dtype from) {
  const ec_dtype_set is_signed = EC_SET_CLASSIC_INT & ~(unsigned)EC_SET_UINT8;
  if (to == from) return true;
  if (ec_is_floating(outer) && ec_is_floating(inner))
    return ec_dtype_size(outer) > ec_dtype_size(inner);
  return ec_dtype_in(to, is_signed) && ec_is_integral(from) &&
         ec_dtype_size(to) > ec_dtype_size(from);
}

/* Copies numbers as `dtype`, of 8 bytes, in the layout of `like`. NULL: no memory. */
static void *widen(const nested_run *run, ec_dtype dtype, const ec_view *from, const ec_view *like,
                   size_t count) {
  ec_view to = *like;
  to.dtype = dtype;
  to.data = ec_arena_alloc(run->call->scratch, count * sizeof(int64_t), EC_ALIGN);
  if (to.data) copy_converted(run, &to, from);
  return to.data;
}

/* Returns the index of the first number that differs; `count`: none. */
static size_t find_change(ec_dtype dtype, const void *a, const void *b, size_t count) {
  const double *x = a, *y = b;
  const int64_t *i = a, *j = b;
  for (size_t n = 0; n < count; n++) {
    const bool same = dtype == EC_FLOAT64 ? x[n] == y[n] || (isnan(x[n]) && isnan(y[n]))
                                          : i[n] == j[n];
    if (!same) return n;
  }
  return count;
}

static void append_number(ec_error *err, ec_dtype dtype, const void *numbers, size_t at) {
  if (dtype == EC_FLOAT64) ec_error_append(err, "%.9g", ((const double *)numbers)[at]);
  else ec_error_append(err, "%" PRId64, ((const int64_t *)numbers)[at]);
}

/* Refuses a conversion that changes a number, and names the first one, by its index in memory.
 * `said` describes the conversion. */
static ec_status check_numbers(const nested_run *run, const char *said, const ec_view *to,
                               const ec_view *from) {
  const ec_dtype wide = ec_is_floating(from->dtype) ? EC_FLOAT64 : EC_INT64;
  ec_error *err = run->call->err;
  size_t count = 1;
  for (size_t d = 0; d < from->rank; d++) count *= (size_t)from->sizes[d];
  const void *a = widen(run, wide, from, from, count), *b = widen(run, wide, to, from, count);
  if (!a || !b) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  const size_t at = find_change(wide, a, b, count);
  if (at == count) return EC_OK;
  ec_fail(err, EC_INVALID_PROGRAM, "%s: element %zu is ", said, at);
  append_number(err, wide, a, at);
  ec_error_append(err, ", and would be ");
  append_number(err, wide, b, at);
  return EC_INVALID_PROGRAM;
}

/* Converts, and refuses if a number changes: a payload may have floats for a program's bool, for
 * example. `outer` is the dtype in the program, `inner` that in the payload. */
static ec_status convert(const nested_run *run, const char *what, size_t index, ec_dtype outer,
                         ec_dtype inner, const ec_view *to, const ec_view *from) {
  char said[160];
  copy_converted(run, to, from);
  if (may_convert(outer, inner, to->dtype, from->dtype)) return EC_OK;
  (void)snprintf(said, sizeof said,
                 "%s %zu is %s in the program and %s in the payload, which changes its numbers",
                 what, index, ec_dtype_name(outer), ec_dtype_name(inner));
  if (!ec_is_complex(outer) && !ec_is_complex(inner))
    return check_numbers(run, said, to, from);
  return ec_fail(run->call->err, EC_INVALID_PROGRAM, "%s", said);
}

/* Converts an input to the dtype of the program's, row-major in scratch memory. */
static ec_status convert_input(const nested_run *run, size_t index, ec_dtype dtype,
                               const ec_backend_tensor *t, ec_array *array,
                               int64_t strides[EC_MAX_RANK]) {
  const ec_view from = view_argument(t);
  const size_t item = ec_dtype_size(dtype);
  ec_view to = from;
  size_t bytes = item;
  int64_t step = 1;
  for (size_t d = t->rank; d-- > 0; step *= t->sizes[d]) {
    to.strides[d] = step;
    strides[d] = step * (int64_t)item;
    if (!ec_mul_size(bytes, (size_t)t->sizes[d], &bytes))
      return ec_fail(run->call->err, EC_MEMORY_ALLOCATION_FAILED, "the input's bytes overflow");
  }
  to.dtype = dtype;
  to.data = ec_arena_alloc(run->call->scratch, bytes, EC_ALIGN);
  if (!to.data)
    return ec_fail(run->call->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for %zu bytes", bytes);
  if (t->nbytes) EC_TRY(convert(run, "input", index, from.dtype, dtype, &to, &from));
  *array = (ec_array){to.data, dtype, t->rank, t->sizes, strides};
  return EC_OK;
}

static ec_status bind_nested_tensor(const nested_run *run, size_t index,
                                    const ec_backend_tensor *t) {
  int64_t strides[EC_MAX_RANK];
  ec_method *m = run->method;
  const ec_value *input = m->inputs[index].value;
  const size_t item = ec_dtype_size((ec_dtype)t->dtype);
  ec_array array = {t->data, (ec_dtype)t->dtype, t->rank, t->sizes, strides};
  for (size_t d = 0; d < t->rank; d++) strides[d] = t->strides[d] * (int64_t)item;
  if (run->converts && input->kind == EC_KIND_TENSOR && input->as.tensor->dtype != t->dtype) {
    const ec_dtype inner = ec_tensor_dtype(input->as.tensor);
    EC_TRY(convert_input(run, index, inner, t, &array, strides));
  }
  return ec_method_bind_input(m, index, &array, run->call->err);
}

static ec_status bind_nested_number(const nested_run *run, size_t index, ec_scalar number) {
  return ec_method_bind_scalar(run->method, index, number, run->call->err);
}

static ec_status bind_nested_input(const nested_run *run, size_t index,
                                   const ec_backend_arg *arg) {
  switch (arg->kind) {
  case EC_BACKEND_TENSOR: return bind_nested_tensor(run, index, &arg->as.tensor);
  case EC_BACKEND_STRING:
    return ec_method_bind_string(run->method, index, arg->as.string.data, run->call->err);
  case EC_BACKEND_INT:
    return bind_nested_number(run, index, (ec_scalar){EC_KIND_INT, {.i = arg->as.i}});
  case EC_BACKEND_DOUBLE:
    return bind_nested_number(run, index, (ec_scalar){EC_KIND_DOUBLE, {.d = arg->as.d}});
  case EC_BACKEND_BOOL:
    return bind_nested_number(run, index, (ec_scalar){EC_KIND_BOOL, {.b = arg->as.b}});
  default: return ec_method_bind_none(run->method, index, run->call->err);
  }
}

static bool has_same_layout(const ec_tensor *t, const ec_backend_tensor *arg) {
  return t->dtype == arg->dtype && t->rank == arg->rank &&
         memcmp(t->dim_order, arg->dim_order, t->rank) == 0;
}

static bool has_one_element(const ec_backend_tensor *t) {
  for (size_t d = 0; d < t->rank; d++)
    if (t->sizes[d] != 1) return false;
  return true;
}

/* Copies the element of a result to an argument of another rank: a payload may have (1,) where its
 * program has (). */
static ec_status copy_element(const nested_run *run, size_t index, const ec_tensor *t,
                              const ec_backend_tensor *arg) {
  const ec_view from = ec_view_of(t);
  ec_view to = from;
  to.data = arg->data;
  to.dtype = (ec_dtype)arg->dtype;
  return convert(run, "output", index, to.dtype, from.dtype, &to, &from);
}

/* Copies a result to the caller. Both sides are dense, in dim orders that must agree, unless the
 * call converts. */
static ec_status copy_nested_output(const nested_run *run, size_t index, ec_backend_arg *arg) {
  ec_host_call *call = run->call;
  const ec_value *v = ec_method_output(run->method, index);
  if (v->kind != EC_KIND_TENSOR || arg->kind != EC_BACKEND_TENSOR)
    return ec_fail(call->err, EC_NOT_SUPPORTED, "output %zu is a %s, expected a tensor", index,
                   ec_kind_name((ec_kind)v->kind));
  const ec_tensor *t = v->as.tensor;
  const bool same = has_same_layout(t, &arg->as.tensor);
  if (run->converts && t->rank != arg->as.tensor.rank && t->numel == 1 &&
      has_one_element(&arg->as.tensor))
    return copy_element(run, index, t, &arg->as.tensor);
  if (!same && !(run->converts && t->rank == arg->as.tensor.rank))
    return ec_fail(call->err, EC_INVALID_PROGRAM, "output %zu is %s of rank %u, expected %s of %u",
                   index, ec_dtype_name(ec_tensor_dtype(t)), t->rank,
                   ec_dtype_name((ec_dtype)arg->as.tensor.dtype), arg->as.tensor.rank);
  EC_TRY((ec_status)ec_host_resize(call, arg, t->rank, t->sizes));
  if (!t->numel) return EC_OK;
  if (same) {
    memmove(arg->as.tensor.data, t->data, ec_tensor_nbytes(t));
    return EC_OK;
  }
  const ec_view to = view_argument(&arg->as.tensor), from = ec_view_of(t);
  return convert(run, "output", index, to.dtype, from.dtype, &to, &from);
}

/* Runs the method. Its events go to the call's trace: nodes of the delegate, or instructions one
 * level deeper. */
static ec_status execute_nested(ec_method *m, ec_host_call *call) {
  if (!call->trace) return ec_method_execute(m, call->err);
  m->trace = call->trace;
  if (!m->nodes) ec_trace_nest(call->trace, 1);
  ec_status status = ec_method_execute(m, call->err);
  if (!m->nodes) ec_trace_nest(call->trace, -1);
  m->trace = NULL;
  return status;
}

static uint32_t run_nested(const nested_run *run, ec_backend_arg *args, size_t count,
                           const ec_backend_node *nodes, size_t node_count) {
  ec_method *m = run->method;
  ec_error *err = run->call->err;
  size_t inputs = ec_method_input_count(m), outputs = ec_method_output_count(m);
  if (count != inputs + outputs)
    return (uint32_t)ec_fail(err, EC_INVALID_PROGRAM,
                             "%zu arguments, the nested program has %zu inputs and %zu outputs",
                             count, inputs, outputs);
  ec_status status = ec_method_lock(m, NULL, err);
  if (status != EC_OK) return (uint32_t)ec_fail_in(err, status, "nested program");
  m->nodes = nodes;
  m->node_count = node_count;
  for (size_t i = 0; i < inputs && status == EC_OK; i++)
    status = bind_nested_input(run, i, &args[i]);
  if (status == EC_OK) status = execute_nested(m, run->call);
  for (size_t i = 0; i < outputs && status == EC_OK; i++)
    status = copy_nested_output(run, i, &args[inputs + i]);
  m->nodes = NULL;
  ec_method_unlock(m);
  return (uint32_t)(status == EC_OK ? EC_OK : ec_fail_in(err, status, "nested program"));
}

uint32_t ec_nested_run(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                       size_t count) {
  return run_nested(&(nested_run){call, nested->method, false}, args, count, NULL, 0);
}

uint32_t ec_nested_run_nodes(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                             size_t count, const ec_backend_node *nodes, size_t node_count) {
  return run_nested(&(nested_run){call, nested->method, true}, args, count, nodes, node_count);
}
