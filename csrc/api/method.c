/* Methods. A call binds the caller's inputs, runs, and copies the outputs to memory of its own. */
#include "api/method.h"

#include <string.h>

#include "api/program.h"
#include "api/status.h"
#include "api/value.h"
#include "core/alloc.h"
#include "runtime/describe.h"

typedef struct result {
  void *block;
  size_t capacity;
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK]; /* strides in bytes */
} result;

struct ecr_method {
  ec_method *method;
  ec_method_info info;
  result *results;
};

ec_method *ecr_method_inside(ecr_method *m) { return m->method; }

/* ---- loading --------------------------------------------------------------------------------- */

static ec_method_options options_of(const ecr_method_options *options) {
  ecr_method_options all = {.struct_size = sizeof all};
  if (options && options->struct_size)
    memcpy(&all, options, options->struct_size < sizeof all ? options->struct_size : sizeof all);
  return (ec_method_options){.threads = all.threads, .max_bytes = all.max_bytes,
                             .max_steps = all.max_steps, .delegation = EC_DELEGATE_WHERE_IT_PAYS};
}

static ec_status load(const ec_program *program, const char *name,
                      const ec_method_options *options, ecr_method *m, ec_error *err) {
  size_t index = 0;
  EC_TRY(ec_program_find_method(program, name, &index, err));
  EC_TRY(ec_program_describe(program, index, &m->info, err));
  EC_TRY(ec_method_load(program, name, options, &m->method, err));
  m->results = ec_alloc_array(m->info.output_count + 1, sizeof *m->results);
  return m->results ? EC_OK : ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for outputs");
}

ecr_status ecr_method_load(const ecr_program *program, const char *name,
                           const ecr_method_options *options, ecr_method **out,
                           ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  const ec_method_options native = options_of(options);
  ecr_method *m = ec_alloc_zeroed(sizeof *m);
  ec_status status = m ? load(ecr_program_inside(program), name, &native, m, &err)
                       : ec_fail(&err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a method");
  *out = status == EC_OK ? m : NULL;
  if (status != EC_OK) ecr_method_free(m);
  return ecr_report(status, &err, error);
}

void ecr_method_free(ecr_method *m) {
  if (!m) return;
  for (size_t i = 0; m->results && i < m->info.output_count; i++) ec_free(m->results[i].block);
  ec_free(m->results);
  ec_method_free(m->method);
  ec_method_info_deinit(&m->info);
  ec_free(m);
}

/* ---- descriptions ---------------------------------------------------------------------------- */

size_t ecr_method_input_count(const ecr_method *m) { return m->info.input_count; }

size_t ecr_method_output_count(const ecr_method *m) { return m->info.output_count; }

ecr_value ecr_method_input(const ecr_method *m, size_t index) {
  return index < m->info.input_count ? ecr_described(&m->info.inputs[index])
                                     : (ecr_value){.kind = ECR_NONE};
}

ecr_value ecr_method_output(const ecr_method *m, size_t index) {
  return index < m->info.output_count ? ecr_described(&m->info.outputs[index])
                                      : (ecr_value){.kind = ECR_NONE};
}

/* ---- calls ----------------------------------------------------------------------------------- */

static ec_status bind_tensor(ecr_method *m, size_t index, const ecr_tensor *t, ec_error *err) {
  int64_t strides[EC_MAX_RANK];
  if (t->rank > EC_MAX_RANK || !ec_dtype_valid(t->dtype))
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "input %zu has dtype %d and %u dimensions, expected a dtype of ecr_dtype and at "
                   "most %d", index, (int)t->dtype, (unsigned)t->rank, EC_MAX_RANK);
  int64_t step = (int64_t)ec_dtype_size((ec_dtype)t->dtype);
  for (uint32_t d = t->rank; d-- > 0;) {
    strides[d] = step;
    if (__builtin_mul_overflow(step, t->sizes[d] > 0 ? t->sizes[d] : 1, &step))
      return ec_fail(err, EC_INVALID_ARGUMENT, "input %zu is too large", index);
  }
  const ec_array array = {t->data, (ec_dtype)t->dtype, t->rank, t->sizes,
                          t->strides ? t->strides : strides};
  return ec_method_bind_input(m->method, index, &array, err);
}

static ec_status bind_input(ecr_method *m, size_t index, const ecr_value *v, ec_error *err) {
  switch (v->kind) {
  case ECR_TENSOR: return bind_tensor(m, index, &v->as.tensor, err);
  case ECR_NONE: return ec_method_bind_none(m->method, index, err);
  case ECR_STRING: return ec_method_bind_string(m->method, index, v->as.string, err);
  case ECR_INT:
    return ec_method_bind_scalar(m->method, index,
                                 (ec_scalar){EC_KIND_INT, {.i = v->as.i}}, err);
  case ECR_DOUBLE:
    return ec_method_bind_scalar(m->method, index,
                                 (ec_scalar){EC_KIND_DOUBLE, {.d = v->as.d}}, err);
  case ECR_BOOL:
    return ec_method_bind_scalar(m->method, index,
                                 (ec_scalar){EC_KIND_BOOL, {.b = v->as.b}}, err);
  case ECR_OTHER: break;
  }
  return ec_fail(err, EC_INVALID_ARGUMENT, "input %zu has the unknown kind %d", index,
                 (int)v->kind);
}

static ec_status copy_tensor(result *r, const ec_tensor *t, ecr_value *out, ec_error *err) {
  const size_t bytes = ec_tensor_nbytes(t), width = ec_dtype_size(ec_tensor_dtype(t));
  if (r->capacity < bytes || !r->block) {
    ec_free(r->block);
    r->block = ec_alloc(bytes);
    r->capacity = r->block ? bytes : 0;
    if (!r->block)
      return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for an output of %zu bytes",
                     bytes);
  }
  if (bytes) memcpy(r->block, t->data, bytes);
  for (size_t d = 0; d < t->rank; d++) {
    r->sizes[d] = t->sizes[d];
    r->strides[d] = t->strides[d] * (int64_t)width;
  }
  *out = (ecr_value){ECR_TENSOR, {.tensor = {r->block, t->dtype, t->rank, r->sizes, r->strides}}};
  return EC_OK;
}

static ec_status call(ecr_method *m, const ecr_value *inputs, ecr_value *outputs, ec_error *err) {
  for (size_t i = 0; i < m->info.input_count; i++) EC_TRY(bind_input(m, i, &inputs[i], err));
  EC_TRY(ec_method_execute(m->method, err));
  for (size_t i = 0; outputs && i < m->info.output_count; i++) {
    const ec_value *v = ec_method_output(m->method, i);
    outputs[i] = ecr_converted(v);
    if (v->kind == EC_KIND_TENSOR)
      EC_TRY(copy_tensor(&m->results[i], v->as.tensor, &outputs[i], err));
  }
  return EC_OK;
}

static ec_status run(ecr_method *m, const ecr_value *inputs, size_t input_count,
                     ecr_value *outputs, size_t output_count, ec_error *err) {
  ec_budget budget;
  if (input_count != m->info.input_count)
    return ec_fail(err, EC_INVALID_ARGUMENT, "%zu inputs, method '%s' takes %zu", input_count,
                   m->info.name, m->info.input_count);
  if (outputs && output_count < m->info.output_count)
    return ec_fail(err, EC_INVALID_ARGUMENT, "room for %zu outputs, method '%s' has %zu",
                   output_count, m->info.name, m->info.output_count);
  EC_TRY(ec_method_lock(m->method, NULL, err));
  ec_method_budget(m->method, NULL, &budget);
  ec_budget_enter(&budget);
  const ec_status status = call(m, inputs, outputs, err);
  ec_budget_leave(&budget);
  if (status != EC_OK) ec_budget_explain(&budget, status, err);
  ec_method_unlock(m->method);
  return status;
}

ecr_status ecr_method_run(ecr_method *m, const ecr_value *inputs, size_t input_count,
                          ecr_value *outputs, size_t output_count, ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  return ecr_report(run(m, inputs, input_count, outputs, output_count, &err), &err, error);
}

ecr_status ecr_method_reset(ecr_method *m, ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  const ec_status status = ec_method_lock(m->method, NULL, &err);
  if (status == EC_OK) {
    ec_method_reset(m->method);
    ec_method_unlock(m->method);
  }
  return ecr_report(status, &err, error);
}
