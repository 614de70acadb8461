/* GATHER and SCATTER: rows of any dtype. */
#include <string.h>

#include "operators.h"

/* Rows [n, k] of C elements, and their indices [n, w]. */
typedef struct rows {
  const eto_tensor *values, *indices;
  int64_t batch, count, picked;
  size_t bytes; /* of a row */
} rows;

static uint32_t read_rows(const eto_call *c, const char *name, rows *r) {
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, name, ETO_ANY, 3, &r->values));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "indices", ETO_INTEGERS, 2, &r->indices));
  r->batch = r->values->sizes[0];
  r->count = r->values->sizes[1];
  r->picked = r->indices->sizes[1];
  r->bytes = (size_t)r->values->sizes[2] * ec_backend_dtype_size(r->values->dtype);
  if (r->indices->sizes[0] != r->batch)
    return EC_ARG_FAIL(c, "'indices' has %lld rows, '%s' has %lld", (long long)r->indices->sizes[0],
                       name, (long long)r->batch);
  return EC_BACKEND_OK;
}

static uint32_t check_out(const eto_call *c, const rows *r, const eto_tensor *t) {
  if (t->dtype == r->values->dtype) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "dtypes differ: %d and %d", t->dtype, r->values->dtype);
}

/* Finds the row of `values` for index `i` of all indices. */
static uint32_t find_row(const eto_call *c, const rows *r, int64_t i, size_t *row) {
  int64_t index;
  eto_load(r->indices, i, 1, false, &index);
  if (index < 0 || index >= r->count)
    return EC_ARG_FAIL(c, "index %lld at %lld, expected 0 to %lld", (long long)index, (long long)i,
                       (long long)r->count - 1);
  *row = (size_t)(i / r->picked * r->count + index);
  return EC_BACKEND_OK;
}

uint32_t eto_gather(const eto_call *c) {
  rows r = {0};
  const eto_tensor *out;
  size_t row = 0;
  EC_BACKEND_TRY(read_rows(c, "values", &r));
  const int64_t sizes[] = {r.batch, r.picked, r.values->sizes[2]};
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 2, ETO_ANY, 3, sizes, &out));
  EC_BACKEND_TRY(check_out(c, &r, out));
  for (int64_t i = 0; i < r.batch * r.picked; i++) {
    EC_BACKEND_TRY(find_row(c, &r, i, &row));
    if (r.bytes)
      memcpy((char *)out->data + (size_t)i * r.bytes,
             (const char *)r.values->data + row * r.bytes, r.bytes);
  }
  return EC_BACKEND_OK;
}

uint32_t eto_scatter(const eto_call *c) {
  rows r = {0};
  const eto_tensor *out, *input;
  size_t row = 0;
  EC_BACKEND_TRY(read_rows(c, "values_in", &r));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 2, "input", ETO_ANY, 3, &input));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 3, ETO_ANY, 3, r.values->sizes, &out));
  EC_BACKEND_TRY(check_out(c, &r, out));
  EC_BACKEND_TRY(check_out(c, &r, input));
  if (input->sizes[0] != r.batch || input->sizes[1] != r.picked ||
      input->sizes[2] != r.values->sizes[2])
    return EC_ARG_FAIL(c, "'input' has other sizes than rows of 'values_in' by 'indices'");
  if (r.values->nbytes) memcpy(out->data, r.values->data, r.values->nbytes);
  for (int64_t i = 0; i < r.batch * r.picked; i++) {
    EC_BACKEND_TRY(find_row(c, &r, i, &row));
    if (r.bytes)
      memcpy((char *)out->data + row * r.bytes,
             (const char *)input->data + (size_t)i * r.bytes, r.bytes);
  }
  return EC_BACKEND_OK;
}
