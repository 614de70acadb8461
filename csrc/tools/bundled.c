/* The cases of a method: inputs, and outputs that eager PyTorch computed. */
#include "tools/bundled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "format/bpte.h"

static bool fail(ecr_error *error, const ec_error *from) {
  error->status = (ecr_status)from->status;
  snprintf(error->message, sizeof error->message, "%s", from->message);
  return false;
}

static bool open_bundled(const void *data, size_t size, ec_bpte *out, ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  return ec_bpte_open(out, data, size, &err) == EC_OK || fail(error, &err);
}

bool bundled_is(const void *data, size_t size) {
  return size >= 8 && memcmp((const char *)data + 4, "BP", 2) == 0;
}

bool bundled_program(const void *data, size_t size, const void **program, size_t *program_size,
                     ecr_error *error) {
  ec_bpte bpte;
  if (!open_bundled(data, size, &bpte, error)) return false;
  *program = bpte.program.data;
  *program_size = bpte.program.size;
  return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

enum { MAX_VALUES = 256 };

typedef struct values {
  ec_bpte_tensor tensors[MAX_VALUES];
  int64_t strides[MAX_VALUES][EC_MAX_RANK];
  ecr_value items[MAX_VALUES];
  size_t count;
} values;

static ec_status read_tensor(ec_fb_table table, values *v, size_t i, ec_error *err) {
  ec_bpte_tensor *t = &v->tensors[i];
  EC_TRY(ec_bpte_read_tensor(table, t, err));
  int64_t step = (int64_t)ec_dtype_size(t->dtype);
  for (size_t d = t->rank; d-- > 0;) {
    v->strides[i][t->dim_order[d]] = step;
    step *= t->sizes[t->dim_order[d]] ? t->sizes[t->dim_order[d]] : 1;
  }
  v->items[i] = (ecr_value){ECR_TENSOR, {.tensor = {(void *)(uintptr_t)t->data.data,
                                                    (int32_t)t->dtype, (uint32_t)t->rank, t->sizes,
                                                    v->strides[i]}}};
  return EC_OK;
}

static ec_status read_value(ec_fb_table value, values *v, size_t i, ec_error *err) {
  const ec_fb_table tensor = ec_fb_union(value, EC_BPTE_Value_val, EC_BPTE_TENSOR);
  const ec_fb_table number = ec_fb_union(value, EC_BPTE_Value_val, EC_BPTE_INT);
  const ec_fb_table truth = ec_fb_union(value, EC_BPTE_Value_val, EC_BPTE_BOOL);
  const ec_fb_table real = ec_fb_union(value, EC_BPTE_Value_val, EC_BPTE_DOUBLE);
  if (tensor) return read_tensor(tensor, v, i, err);
  if (number) v->items[i] = (ecr_value){ECR_INT, {.i = ec_fb_i64(number, 0)}};
  else if (truth) v->items[i] = (ecr_value){ECR_BOOL, {.b = ec_fb_bool(truth, 0)}};
  else if (real) v->items[i] = (ecr_value){ECR_DOUBLE, {.d = ec_fb_f64(real, 0)}};
  else v->items[i] = (ecr_value){.kind = ECR_NONE};
  return EC_OK;
}

static ec_status read_values(ec_fb_vec from, values *v, ec_error *err) {
  if (from.count > MAX_VALUES)
    return ec_fail(err, EC_NOT_SUPPORTED, "a test case has %u values, at most %d are supported",
                   (unsigned)from.count, MAX_VALUES);
  for (v->count = 0; v->count < from.count; v->count++)
    EC_TRY(read_value(ec_fb_vec_table(from, (uint32_t)v->count), v, v->count, err));
  return EC_OK;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static double number_at(int32_t dtype, const void *at) {
  uint16_t half;
  memcpy(&half, at, 1);
  switch (dtype) {
  case ECR_FLOAT32: { float f; memcpy(&f, at, sizeof f); return (double)f; }
  case ECR_FLOAT64: { double f; memcpy(&f, at, sizeof f); return f; }
  case ECR_FLOAT16: memcpy(&half, at, 2); return (double)ec_f16_to_f32(half);
  case ECR_BFLOAT16: memcpy(&half, at, 2); return (double)ec_bf16_to_f32(half);
  case ECR_INT64: { int64_t i; memcpy(&i, at, sizeof i); return (double)i; }
  case ECR_UINT64: { uint64_t i; memcpy(&i, at, sizeof i); return (double)i; }
  case ECR_INT32: { int32_t i; memcpy(&i, at, sizeof i); return i; }
  case ECR_UINT32: { uint32_t i; memcpy(&i, at, sizeof i); return i; }
  case ECR_INT16: { int16_t i; memcpy(&i, at, sizeof i); return i; }
  case ECR_UINT16: memcpy(&half, at, 2); return half;
  case ECR_INT8: return *(const int8_t *)at;
  default: return *(const uint8_t *)at;
  }
}

typedef struct limits {
  double rtol, atol, worst;
} limits;

static bool is_close(limits *l, double actual, double expected) {
  if (isnan(actual) || isnan(expected)) return isnan(actual) && isnan(expected);
  if (isinf(actual) || isinf(expected)) return actual == expected;
  const double error = fabs(actual - expected);
  if (error > l->worst) l->worst = error;
  return error <= l->atol + l->rtol * fabs(expected);
}

/* Compares the elements of dimensions from d on; complex numbers as pairs. */
static bool compare_from(limits *l, const ecr_tensor *a, const ecr_tensor *b, uint32_t d,
                         const char *at, const char *bt) {
  bool close = true;
  if (d < a->rank) {
    for (int64_t i = 0; i < a->sizes[d]; i++)
      close &= compare_from(l, a, b, d + 1, at + i * a->strides[d], bt + i * b->strides[d]);
    return close;
  }
  const bool is_complex = a->dtype == ECR_COMPLEX64 || a->dtype == ECR_COMPLEX128;
  const int32_t part = a->dtype == ECR_COMPLEX64    ? ECR_FLOAT32
                       : a->dtype == ECR_COMPLEX128 ? ECR_FLOAT64
                                                    : a->dtype;
  const size_t width = ecr_dtype_size(part);
  for (size_t i = 0; i < (is_complex ? 2u : 1u); i++)
    close &= is_close(l, number_at(part, at + i * width), number_at(part, bt + i * width));
  return close;
}

static bool compare(limits *l, const ecr_value *a, const ecr_value *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == ECR_INT) return a->as.i == b->as.i;
  if (a->kind == ECR_BOOL) return a->as.b == b->as.b;
  if (a->kind == ECR_DOUBLE) return is_close(l, a->as.d, b->as.d);
  if (a->kind != ECR_TENSOR) return true;
  const ecr_tensor *x = &a->as.tensor, *y = &b->as.tensor;
  if (x->dtype != y->dtype || x->rank != y->rank) return false;
  for (uint32_t d = 0; d < x->rank; d++)
    if (x->sizes[d] != y->sizes[d]) return false;
  return compare_from(l, x, y, 0, x->data, y->data);
}

/* ---- cases ----------------------------------------------------------------------------------- */

typedef struct session {
  ecr_method *method;
  values inputs, expected;
  ecr_value outputs[MAX_VALUES];
  double rtol, atol;
  int differ;
} session;

static bool run_case(session *s, ec_fb_table one, uint32_t number, ecr_error *error) {
  ec_error err;
  limits l = {s->rtol, s->atol, 0};
  ec_error_clear(&err);
  if (read_values(ec_fb_vector(one, EC_BPTE_BundledMethodTestCase_inputs), &s->inputs, &err) ||
      read_values(ec_fb_vector(one, EC_BPTE_BundledMethodTestCase_expected_outputs), &s->expected,
                  &err))
    return fail(error, &err);
  const size_t count = ecr_method_output_count(s->method);
  if (ecr_method_run(s->method, s->inputs.items, s->inputs.count,
                     count <= MAX_VALUES ? s->outputs : NULL, MAX_VALUES, error))
    return false;
  bool equal = count == s->expected.count;
  for (size_t i = 0; equal && i < count; i++)
    equal = compare(&l, &s->outputs[i], &s->expected.items[i]);
  printf("case %u: %s, largest error %.3g\n", (unsigned)number, equal ? "match" : "differ",
         l.worst);
  s->differ += !equal;
  return true;
}

int bundled_run(const void *data, size_t size, ecr_method *method, const char *name, double rtol,
                double atol, ecr_error *error) {
  ec_bpte bpte;
  if (!open_bundled(data, size, &bpte, error)) return -1;
  session *s = calloc(1, sizeof *s);
  int differ = s ? 0 : -1;
  const ec_fb_vec suites = ec_fb_vector(bpte.root, EC_BPTE_BundledProgram_method_test_suites);
  for (uint32_t i = 0; s && differ >= 0 && i < suites.count; i++) {
    const ec_fb_table suite = ec_fb_vec_table(suites, i);
    const char *own = ec_fb_string(suite, EC_BPTE_BundledMethodTestSuite_method_name);
    const ec_fb_vec cases = ec_fb_vector(suite, EC_BPTE_BundledMethodTestSuite_test_cases);
    s->method = method;
    s->rtol = rtol;
    s->atol = atol;
    if (!own || strcmp(own, name) != 0) continue;
    for (uint32_t c = 0; c < cases.count && differ >= 0; c++)
      differ = run_case(s, ec_fb_vec_table(cases, c), c, error) ? s->differ : -1;
  }
  free(s);
  return differ;
}
