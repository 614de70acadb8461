/* Rows of a quantised table by index: bytes, or two or four values packed in a byte. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/index/index.h"
#include "kernels/pages.h"
#include "kernels/quantized/affine.h"

typedef struct table {
  const ec_tensor *weight;
  int64_t columns; /* values per row */
  int bits;
  ec_affine_rows rows;
  float *packed, *plain; /* one row before and after dequantising */
  int64_t lookups; /* of this call */
  ec_pages *pages;
} table;

/* Checks scales or zero points (argument `i`): per row a number, or one per group. */
static ec_status check_numbers(ec_call *c, size_t i, const ec_tensor *weight) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_SINGLE));
  EC_TRY(ec_call_check_rank(c, i, 1, 2));
  if (t->sizes[0] == weight->sizes[0]) return EC_OK;
  return ec_call_fail(c, i, "%" PRId64 " rows, expected %" PRId64 " as in 'weight'", t->sizes[0],
                      weight->sizes[0]);
}

static ec_status check_table(ec_call *c, table *t) {
  const ec_tensor *w = t->weight = ec_arg_tensor(c, 0), *scale = ec_arg_tensor(c, 1);
  const ec_tensor *zero = ec_arg_opt_tensor(c, 2);
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_INT8) | EC_BIT(EC_UINT8)));
  EC_TRY(ec_call_check_rank(c, 0, 2, 2));
  EC_TRY(check_numbers(c, 1, w));
  if (zero) EC_TRY(check_numbers(c, 2, w));
  if (zero) EC_TRY(ec_call_check_same_dtype(c, 2, 1));
  const int64_t groups = scale->rank > 1 ? scale->sizes[1] : 1;
  if (!ec_mul_i64(w->sizes[1], 8 / t->bits, &t->columns))
    return ec_call_fail(c, 0, "too many columns");
  if (groups == 0 || t->columns % groups != 0 || t->columns / groups < 2)
    return ec_call_fail(c, 1, "%" PRId64 " groups of %" PRId64 " columns, expected groups of equal "
                        "size, 2 or more", groups, t->columns);
  if (zero && zero->numel != scale->numel && zero->numel != 1)
    return ec_call_fail(c, 2, "%" PRId64 " elements, expected %" PRId64 " as in '%s'", zero->numel,
                        scale->numel, c->op->args[1].name);
  t->rows = (ec_affine_rows){scale, zero, t->columns / groups, ec_tensor_dtype(scale)};
  return EC_OK;
}

/* Unpacks two values of 4 bits, the first in the high bits: quotient and remainder of 16, minus
 * 8. */
static void unpack_4(int64_t n, const uint8_t *from, int64_t step, bool is_signed, float *to) {
  if (is_signed)
    for (int64_t i = 0; i < n; i++) {
      const int b = (int8_t)from[i * step];
      to[2 * i] = (float)(b / 16 - 8);
      to[2 * i + 1] = (float)((b & 15) - 8);
    }
  else
    for (int64_t i = 0; i < n; i++) {
      const int b = from[i * step];
      to[2 * i] = (float)((b >> 4) - 8);
      to[2 * i + 1] = (float)((b & 15) - 8);
    }
}

/* Unpacks four values of 2 bits, the first in the low bits, minus 2. The last one of a signed byte
 * keeps its sign. */
static void unpack_2(int64_t n, const uint8_t *from, int64_t step, bool is_signed, float *to) {
  for (int64_t i = 0; i < n; i++) {
    const int b = from[i * step];
    for (int64_t k = 0; k < 4; k++) to[4 * i + k] = (float)((b >> 2 * k & 3) - 2);
    if (is_signed && b >> 7) to[4 * i + 3] -= 4;
  }
}

/* Dequantises row `row` of the table to `out`, with elements `step` bytes apart. */
static void look_up(const table *t, int64_t row, ec_dtype dtype, char *out, int64_t step) {
  const ec_tensor *w = t->weight;
  const ec_dtype from = ec_tensor_dtype(w);
  const uint8_t *bytes = (const uint8_t *)w->data + row * w->strides[0];
  const int64_t n = w->sizes[1], apart = w->strides[1];
  if (t->bits == 8)
    ec_cast(EC_FLOAT32, from)(n, (char *)t->packed, 4, (const char *)bytes, apart);
  else
    (t->bits == 4 ? unpack_4 : unpack_2)(n, bytes, apart, from == EC_INT8, t->packed);
  const bool direct = dtype == EC_FLOAT32 && step == 4;
  float *plain = direct ? (float *)(void *)out : t->plain;
  ec_affine_row(&t->rows, row, t->columns, t->packed, plain);
  if (!direct) ec_cast(dtype, EC_FLOAT32)(t->columns, out, step, (const char *)plain, 4);
  ec_pages_read_row(t->pages, w, row, t->lookups);
  ec_pages_read_row(t->pages, t->rows.scale, row, t->lookups);
}

static ec_status run_embedding(ec_call *c, int bits, ec_dtype dtype, size_t o) {
  const ec_tensor *indices = ec_arg_tensor(c, 5);
  ec_tensor *out = ec_arg_tensor(c, o);
  int64_t sizes[EC_MAX_RANK], *index, *offsets;
  table t = {.bits = bits, .pages = c->pages};
  EC_TRY(check_table(c, &t));
  EC_TRY(ec_call_check_rank(c, 5, 0, EC_MAX_RANK - 1));
  EC_TRY(ec_call_check_dtype(c, o, EC_BIT(dtype)));
  EC_TRY(ec_index_read(c, 5, indices, 0, t.weight->sizes[0], false, &index));
  const size_t rank = indices->rank;
  for (size_t d = 0; d < rank; d++) sizes[d] = indices->sizes[d];
  const int64_t count = t.lookups = indices->numel;
  sizes[rank] = t.columns;
  EC_TRY(ec_call_resize(c, o, rank + 1, sizes));
  EC_TRY(ec_index_offsets(c, rank, sizes, out->strides, &offsets));
  EC_TRY(ec_call_scratch(c, (size_t)t.columns, sizeof(float), &t.packed));
  EC_TRY(ec_call_scratch(c, (size_t)t.columns, sizeof(float), &t.plain));
  const int64_t item = (int64_t)ec_dtype_size(dtype);
  for (int64_t i = 0; i < count; i++)
    look_up(&t, index[i], dtype, (char *)out->data + offsets[i] * item,
            out->strides[rank] * item);
  return EC_OK;
}

/* Runs an embedding with packed values: signed integers of `bits` bits. */
static ec_status run_packed_embedding(ec_call *c, int bits, ec_dtype dtype, size_t o) {
  const int64_t half = 1 << (bits - 1);
  if (ec_arg_int(c, 3) == -half && ec_arg_int(c, 4) == half - 1)
    return run_embedding(c, bits, dtype, o);
  return ec_call_fail(c, 3, "values %" PRId64 " to %" PRId64 ", expected %" PRId64 " to %" PRId64,
                      ec_arg_int(c, 3), ec_arg_int(c, 4), -half, half - 1);
}

static ec_dtype scale_dtype(const ec_call *c) { return ec_tensor_dtype(ec_arg_tensor(c, 1)); }

/* Returns the dtype argument, or the dtype of the scales. */
static ec_status output_dtype(ec_call *c, ec_dtype *dtype) {
  const int64_t requested = ec_arg_opt_int(c, 6, scale_dtype(c));
  if (!ec_dtype_valid(requested))
    return ec_call_fail(c, 6, "%" PRId64 " is not a dtype", requested);
  *dtype = (ec_dtype)requested;
  return EC_OK;
}

ec_status ec_op_embedding_byte_out(ec_call *c) { return run_embedding(c, 8, scale_dtype(c), 6); }
ec_status ec_op_embedding_4bit_out(ec_call *c) {
  return run_packed_embedding(c, 4, scale_dtype(c), 6);
}
ec_status ec_op_embedding_2bit_out(ec_call *c) {
  return run_packed_embedding(c, 2, scale_dtype(c), 6);
}

ec_status ec_op_embedding_byte_dtype_out(ec_call *c) {
  ec_dtype dtype = EC_FLOAT32;
  EC_TRY(output_dtype(c, &dtype));
  return run_embedding(c, 8, dtype, 7);
}

ec_status ec_op_embedding_4bit_dtype_out(ec_call *c) {
  ec_dtype dtype = EC_FLOAT32;
  EC_TRY(output_dtype(c, &dtype));
  return run_packed_embedding(c, 4, dtype, 7);
}

ec_status ec_op_embedding_2bit_dtype_out(ec_call *c) {
  ec_dtype dtype = EC_FLOAT32;
  EC_TRY(output_dtype(c, &dtype));
  return run_packed_embedding(c, 2, dtype, 7);
}
