/* Inputs of moderate size most of the time, random bits otherwise. */
#include "testing/fuzz_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"

enum { INPUT_LIMIT = 4 << 20 };

int ec_fuzz_ok(ec_fuzz *f, ec_status status, const char *what) {
  if (status == EC_OK) return 1;
  if ((unsigned)status < EC_FUZZ_STATUSES) f->counts->failed[status]++;
  if (!f->err.message[0] || f->err.status != status || status == EC_INTERNAL) {
    fprintf(stderr, "%s: status %#x, sentence '%s' (%#x)\n", what, (unsigned)status,
            f->err.message, (unsigned)f->err.status);
    f->bad = 1;
  }
  ec_error_clear(&f->err);
  return 0;
}

/* Changes a float by at most three units in the last place, or by 1/256 (bfloat16: four units);
 * zeros stay. */
static void nudge(ec_fuzz *f, uint8_t *at, size_t item) {
  const unsigned digits = item == sizeof(double) ? 52 : item == sizeof(float) ? 23 : 10;
  const uint64_t most = f->coarse ? UINT64_C(1) << (digits - 8) : 3;
  uint64_t bits = 0;
  memcpy(&bits, at, item);
  if (bits) bits += ec_random_below(&f->nudge, 2 * most + 1) - most;
  memcpy(at, &bits, item);
}

static void fill_number(uint8_t *at, ec_dtype dtype, size_t item, int small) {
  const float single = (float)small / 4;
  const double twice = single;
  const uint16_t half = dtype == EC_FLOAT16 ? ec_f32_to_f16(single) : ec_f32_to_bf16(single);
  if (dtype == EC_FLOAT32) memcpy(at, &single, 4);
  else if (dtype == EC_FLOAT64) memcpy(at, &twice, 8);
  else if (dtype == EC_FLOAT16 || dtype == EC_BFLOAT16) memcpy(at, &half, 2);
  else if (ec_is_integral(dtype)) memcpy(at, &(int64_t){small}, item);
  else memset(at, 0x3c, item);
}

static void fill(ec_fuzz *f, uint8_t *data, size_t nbytes, ec_dtype dtype) {
  const bool wild = ec_random_below(&f->r, 4) == 0 && !f->tame;
  const size_t item = ec_dtype_size(dtype);
  for (size_t at = 0; at + item <= nbytes; at += item) {
    const uint64_t bits = ec_random_next(&f->r);
    if (dtype == EC_BOOL) data[at] = bits & 1;
    else if (wild)
      for (size_t i = 0; i < item; i++) data[at + i] = (uint8_t)(bits >> (8 * (i % 8)));
    else fill_number(data + at, dtype, item, (int)(bits >> 40 & 15) - 4);
    if (f->nudge.state && ec_is_floating(dtype)) nudge(f, data + at, item);
  }
}

static uint8_t *new_array(ec_fuzz_arrays *a, size_t nbytes) {
  uint8_t *block = calloc(nbytes ? nbytes : 1, 1);
  if (!block) abort();
  a->size[a->count] = nbytes;
  a->block[a->count++] = block;
  return block;
}

static int bind_tensor(ec_fuzz *f, ec_method *m, size_t index, const ec_tensor_info *info,
                       ec_fuzz_arrays *a) {
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK], step = (int64_t)ec_dtype_size(info->dtype);
  size_t nbytes = ec_dtype_size(info->dtype);
  for (size_t d = 0; d < info->rank; d++) {
    sizes[d] = info->sizes[d];
    if (f->vary && info->dynamism && sizes[d] > 1 && ec_random_below(&f->r, 2))
      sizes[d] = (int64_t)ec_random_below(&f->r, (size_t)sizes[d] < 64 ? (size_t)sizes[d] : 64);
    if (sizes[d] < 0 || (sizes[d] && nbytes > INPUT_LIMIT / (size_t)sizes[d])) return 0;
    nbytes *= (size_t)sizes[d];
  }
  int reversed = ec_random_below(&f->r, 4) == 0; /* a transposed array must be copied */
  for (size_t i = 0; i < info->rank; i++) {
    size_t d = reversed ? i : info->rank - 1 - i;
    strides[d] = step;
    step *= sizes[d];
  }
  uint8_t *data = new_array(a, nbytes);
  fill(f, data, nbytes, info->dtype);
  ec_array array = {data, info->dtype, info->rank, sizes, strides};
  return ec_fuzz_ok(f, ec_method_bind_input(m, index, &array, &f->err), "bind_input");
}

static int bind_input(ec_fuzz *f, ec_method *m, size_t index, const ec_value_info *info,
                      ec_fuzz_arrays *a) {
  switch (info->kind) {
  case EC_KIND_TENSOR: return bind_tensor(f, m, index, &info->tensor, a);
  case EC_KIND_NONE: return ec_fuzz_ok(f, ec_method_bind_none(m, index, &f->err), "bind_none");
  case EC_KIND_STRING:
    return ec_fuzz_ok(f, ec_method_bind_string(m, index, info->string, &f->err), "bind_string");
  case EC_KIND_INT:
  case EC_KIND_BOOL:
  case EC_KIND_DOUBLE:
    return ec_fuzz_ok(f, ec_method_bind_scalar(m, index, info->scalar, &f->err), "bind_scalar");
  default: return 0;
  }
}

static void bind_outputs(ec_fuzz *f, ec_method *m, size_t count, ec_fuzz_arrays *a) {
  for (size_t i = 0; i < count && i < EC_FUZZ_MAX_IO; i++) {
    if (!ec_method_output_is_static(m, i) || ec_random_below(&f->r, 2)) continue;
    size_t nbytes = ec_tensor_nbytes(ec_method_output(m, i)->as.tensor);
    if (nbytes <= INPUT_LIMIT)
      ec_fuzz_ok(f, ec_method_bind_output(m, i, new_array(a, nbytes), nbytes, &f->err),
                 "bind_output");
  }
}

static uint64_t sum_inputs(const ec_fuzz_arrays *a) {
  uint64_t sum = 0;
  for (size_t i = 0; i < a->inputs; i++)
    for (size_t k = 0; k < a->size[i]; k++)
      sum = (sum ^ ((const uint8_t *)a->block[i])[k]) * 0x100000001b3u;
  return sum;
}

bool ec_fuzz_bind(ec_fuzz *f, ec_method *m, const ec_method_info *info, ec_fuzz_arrays *a) {
  bool bound = info->input_count <= EC_FUZZ_MAX_IO;
  *a = (ec_fuzz_arrays){.count = 0};
  f->vary = ec_random_below(&f->r, 2) != 0;
  for (size_t i = 0; bound && i < info->input_count; i++)
    bound = bind_input(f, m, i, &info->inputs[i], a);
  a->inputs = a->count;
  a->sum = sum_inputs(a);
  if (!bound) f->counts->skipped++;
  if (bound) bind_outputs(f, m, info->output_count, a);
  return bound;
}

void ec_fuzz_free(ec_fuzz *f, ec_fuzz_arrays *a) {
  if (a->sum != sum_inputs(a)) {
    fprintf(stderr, "a call changed an input\n");
    f->bad = 1;
  }
  for (size_t i = 0; i < a->count; i++) free(a->block[i]);
  a->count = a->inputs = 0;
}
