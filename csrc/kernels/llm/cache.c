/* update_cache and update_cache_with_indices. Both copy bytes, so a value may have another dtype
 * with elements of the same size. Their `out` is a placeholder that exporters need: it has neither
 * the cache's shape nor its values, and stays as it is. */
#include "kernels/llm/cache.h"

#include <inttypes.h>

#include "kernels/copy.h"
#include "kernels/index/index.h"

enum { VALUE, CACHE, START, INDICES };
enum { RANK = 4 };

ec_status ec_cache_check(ec_call *c, size_t value, size_t cache) {
  const ec_tensor *from = ec_arg_tensor(c, value), *to = ec_arg_tensor(c, cache);
  const ec_dtype actual = ec_tensor_dtype(from), expected = ec_tensor_dtype(to);
  char a[EC_SHAPE_TEXT], b[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_rank(c, value, RANK, RANK));
  EC_TRY(ec_call_check_rank(c, cache, RANK, RANK));
  if (ec_dtype_size(actual) != ec_dtype_size(expected))
    return ec_call_fail(c, value, "dtype %s, expected elements of %zu bytes as in '%s' (%s)",
                        ec_dtype_name(actual), ec_dtype_size(expected), c->op->args[cache].name,
                        ec_dtype_name(expected));
  for (size_t d = 0; d < RANK; d++)
    if (d != 1 && from->sizes[d] != to->sizes[d])
      return ec_call_fail(c, value, "shape %s, expected that of '%s', %s, but for dimension 1",
                          ec_shape_text(from->sizes, RANK, a, sizeof a), c->op->args[cache].name,
                          ec_shape_text(to->sizes, RANK, b, sizeof b));
  return EC_OK;
}

ec_status ec_cache_check_start(ec_call *c, size_t start, size_t cache, int64_t n) {
  const int64_t at = ec_arg_int(c, start), size = ec_arg_tensor(c, cache)->sizes[1];
  if (at >= 0 && at < size && n <= size - at) return EC_OK;
  return ec_call_fail(c, start, "%" PRId64 " with %" PRId64
                      " positions to write, expected positions in [0, %" PRId64 ") of '%s'",
                      at, n, size, c->op->args[cache].name);
}

void ec_cache_write(const ec_call *c, const ec_tensor *value, ec_tensor *cache, int64_t start) {
  ec_view from = ec_view_of(value), to = ec_view_of(cache);
  if (!value->numel) return;
  from.dtype = to.dtype;
  to.sizes[1] = value->sizes[1];
  to.data += start * to.strides[1] * (int64_t)ec_dtype_size(to.dtype);
  ec_copy_view(c, &to, &from);
}

ec_status ec_op_update_cache_out(ec_call *c) {
  const ec_tensor *value = ec_arg_tensor(c, VALUE);
  EC_TRY(ec_cache_check(c, VALUE, CACHE));
  EC_TRY(ec_cache_check_start(c, START, CACHE, value->sizes[1]));
  ec_cache_write(c, value, ec_arg_tensor(c, CACHE), ec_arg_int(c, START));
  return EC_OK;
}

static ec_status check_indices(ec_call *c) {
  const ec_tensor *value = ec_arg_tensor(c, VALUE), *indices = ec_arg_tensor(c, INDICES);
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_dtype(c, INDICES, EC_BIT(EC_INT64)));
  EC_TRY(ec_call_check_rank(c, INDICES, 2, 2));
  if (ec_tensor_has_sizes(indices, 2, value->sizes)) return EC_OK;
  return ec_call_fail(c, INDICES, "shape %s, expected %s, the first dimensions of '%s'",
                      ec_shape_text(indices->sizes, 2, actual, sizeof actual),
                      ec_shape_text(value->sizes, 2, expected, sizeof expected),
                      c->op->args[VALUE].name);
}

/* start_pos is ignored. All indices are checked before anything is written; of two equal ones the
 * last wins. */
ec_status ec_op_update_cache_with_indices_out(ec_call *c) {
  const ec_tensor *value = ec_arg_tensor(c, VALUE), *indices = ec_arg_tensor(c, INDICES);
  ec_tensor *cache = ec_arg_tensor(c, CACHE);
  int64_t *at, *to, *from;
  EC_TRY(ec_cache_check(c, VALUE, CACHE));
  EC_TRY(check_indices(c));
  EC_TRY(ec_index_read(c, INDICES, indices, 1, cache->sizes[1], false, &at));
  if (!value->numel) return EC_OK;
  EC_TRY(ec_call_scratch(c, (size_t)indices->numel, sizeof *to, &to));
  EC_TRY(ec_call_scratch(c, (size_t)indices->numel, sizeof *from, &from));
  for (int64_t i = 0; i < indices->numel; i++) {
    const int64_t b = i / value->sizes[1], s = i % value->sizes[1];
    to[i] = b * cache->strides[0] + at[i] * cache->strides[1];
    from[i] = b * value->strides[0] + s * value->strides[1];
  }
  ec_table table = {.dtype = ec_tensor_dtype(cache), .n = indices->numel, .to = to, .from = from};
  for (size_t d = 2; d < RANK; d++)
    ec_table_dim(&table, value->sizes[d], cache->strides[d], value->strides[d]);
  ec_table_run(c, &table, cache->data, value->data, EC_TABLE_MOVE);
  return EC_OK;
}
