/* .bpte files: structure, and the checks of their tensors. */
#include "format/bpte.h"

#include "core/checked.h"
#include "format/kind.h"
#include "format/schema.h"

static const ec_fb_schema *const union_ValueUnion[EC_BPTE_DOUBLE + 1];

#include "format/bundled.def"

static const ec_fb_schema *const union_ValueUnion[EC_BPTE_DOUBLE + 1] = {
    [EC_BPTE_TENSOR] = &schema_Tensor,
    [EC_BPTE_INT] = &schema_Int,
    [EC_BPTE_BOOL] = &schema_Bool,
    [EC_BPTE_DOUBLE] = &schema_Double,
};

enum {
  NEWEST_VERSION = 2, /* of the schema, which ExecuTorch 1.5 writes */
  HEAD_BYTES = 12     /* root, identifier, and one offset: the smallest table */
};

const ec_fb_schema *ec_bpte_schema(void) { return &schema_BundledProgram; }

ec_status ec_bpte_open(ec_bpte *out, const uint8_t *data, size_t size, ec_error *err) {
  *out = (ec_bpte){0};
  if (size < HEAD_BYTES || memcmp(data + 4, "BP", 2) != 0)
    return ec_kind_fail(data, size, EC_INVALID_PROGRAM, "a bundled program (.bpte)", err);
  if (memcmp(data + 4, "BP08", 4) != 0)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "a bundled program of another version: found identifier '%.4s', expected 'BP08'",
                   (const char *)data + 4);
  EC_TRY(ec_fb_verify(data, size, &schema_BundledProgram, "bundled program", err));
  ec_fb_table root = ec_fb_root(data);
  EC_TRY(ec_fb_check_version(root, EC_BPTE_BundledProgram_version, NEWEST_VERSION,
                             EC_INVALID_PROGRAM, err));
  ec_fb_vec program = ec_fb_vector(root, EC_BPTE_BundledProgram_program);
  if (program.count == 0)
    return ec_fail(err, EC_INVALID_PROGRAM, "the bundle contains no program");
  *out = (ec_bpte){data, size, {program.items, program.count}, root};
  return EC_OK;
}

static ec_status read_shape(ec_fb_table table, ec_bpte_tensor *t, ec_error *err) {
  ec_fb_vec sizes = ec_fb_vector(table, EC_BPTE_Tensor_sizes);
  ec_fb_vec order = ec_fb_vector(table, EC_BPTE_Tensor_dim_order);
  uint32_t seen = 0;
  if (sizes.count > EC_MAX_RANK)
    return ec_fail(err, EC_NOT_SUPPORTED, "rank %u, at most %d dimensions are supported",
                   sizes.count, EC_MAX_RANK);
  if (order.items && order.count != sizes.count)
    return ec_fail(err, EC_INVALID_PROGRAM, "%u sizes, but %u entries of dim_order", sizes.count,
                   order.count);
  t->rank = sizes.count;
  for (uint32_t d = 0; d < sizes.count; d++) {
    t->sizes[d] = ec_fb_vec_i32(sizes, d);
    t->dim_order[d] = order.items ? order.items[d] : (uint8_t)d;
    if (t->sizes[d] < 0)
      return ec_fail(err, EC_INVALID_PROGRAM, "size %u is %d", d, (int)t->sizes[d]);
    if (t->dim_order[d] >= sizes.count || seen >> t->dim_order[d] & 1u)
      return ec_fail(err, EC_INVALID_PROGRAM, "dim_order is not a permutation of %u dimensions",
                     sizes.count);
    seen |= 1u << t->dim_order[d];
  }
  return EC_OK;
}

ec_status ec_bpte_read_tensor(ec_fb_table table, ec_bpte_tensor *out, ec_error *err) {
  ec_bpte_tensor t = {0};
  int8_t dtype = ec_fb_i8(table, EC_BPTE_Tensor_scalar_type);
  ec_fb_vec data = ec_fb_vector(table, EC_BPTE_Tensor_data);
  if (!ec_dtype_valid(dtype))
    return ec_fail(err, EC_NOT_SUPPORTED, "scalar type %d (%s) is not supported", dtype,
                   ec_dtype_name((ec_dtype)dtype));
  EC_TRY(read_shape(table, &t, err));
  size_t nbytes = ec_dtype_size((ec_dtype)dtype);
  bool empty = false, fits = true;
  for (size_t d = 0; d < t.rank; d++) empty = empty || t.sizes[d] == 0;
  for (size_t d = 0; d < t.rank; d++)
    fits = fits && (empty || ec_mul_size(nbytes, (size_t)t.sizes[d], &nbytes));
  if (empty) nbytes = 0;
  if (!fits || nbytes != data.count)
    return ec_fail(err, EC_INVALID_PROGRAM, "%u bytes of data, the sizes need %s%zu", data.count,
                   fits ? "" : "more than ", fits ? nbytes : (size_t)data.count);
  t.dtype = (ec_dtype)dtype;
  t.data = (ec_bytes){data.items, data.count};
  *out = t;
  return EC_OK;
}
