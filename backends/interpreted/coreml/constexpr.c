/* Constants computed when the program is translated. Every element is read as a number, and written
 * in the dtype of the result. Parameters are attributes up to iOS 17, later inputs. */
#include "constexpr.h"

#include <string.h>

#include "core/half.h"

enum { MAX_VECTOR = 64 };

/* ---- parameters ------------------------------------------------------------------------------ */

static uint32_t read_parameter(ecm_node *n, const char *name, ect_operand *out) {
  bool has_parameter = false;
  EC_BACKEND_TRY(ecm_constant(n, name, out, &has_parameter));
  return has_parameter
             ? (uint32_t)EC_BACKEND_OK
             : ect_refuse_as(n->g, EC_BACKEND_INVALID_PROGRAM, " has no %s", name);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Allocates the elements of a constant; their number is already limited by the parameters' bytes,
 * or by `limit`. */
static uint32_t open_result(ecm_node *n, ect_operand *out, size_t limit, uint8_t **items) {
  size_t bytes;
  const ect_tensor type = ect_type_of(out);
  if (out->unknown || !ect_tensor_bytes(&type, &bytes))
    return ecm_refuse(n, "the result has an unknown shape or dtype");
  const size_t width = ec_backend_dtype_size(out->scalar_type);
  if (bytes / width > limit)
    return ect_refuse(n->g, EC_BACKEND_INVALID_PROGRAM,
                      "the result has %zu elements, its parameters have %zu", bytes / width, limit);
  *items = ect_own(&n->g->program, bytes);
  if (!*items)
    return ect_refuse(n->g, EC_BACKEND_ALLOCATION_FAILED, "no memory for a weight");
  out->data = *items;
  out->data_size = bytes;
  return EC_BACKEND_OK;
}

static void write_number(const ect_operand *v, uint8_t *items, size_t i, double number) {
  const float f = (float)number;
  const uint16_t half = ec_f32_to_f16(f);
  const int32_t integer = number >= INT32_MIN && number <= INT32_MAX ? (int32_t)number : 0;
  const size_t width = ec_backend_dtype_size(v->scalar_type);
  if (v->dtype == ECM_FLOAT32) memcpy(items + 4 * i, &f, sizeof f);
  else if (v->dtype == ECM_FLOAT16) memcpy(items + 2 * i, &half, sizeof half);
  else memcpy(items + width * i, &integer, width);
}

static uint32_t check_float(ecm_node *n, const ect_operand *out) {
  return out->dtype == ECM_FLOAT32 || out->dtype == ECM_FLOAT16
             ? (uint32_t)EC_BACKEND_OK
             : ecm_refuse(n, "the result is neither float32 nor float16");
}

/* Returns the index of the block that has element i of `t`, in a tensor with a size per block. */
static size_t block_of(const ect_operand *t, const ect_operand *blocks, size_t i) {
  size_t at = 0, stride = 1;
  for (uint32_t d = t->rank; d-- > 0;) {
    const size_t size = (size_t)t->sizes[d], count = (size_t)blocks->sizes[d];
    at += i % size / (size / count) * stride;
    stride *= count;
    i /= size;
  }
  return at;
}

static bool has_blocks(const ect_operand *t, const ect_operand *blocks) {
  for (uint32_t d = 0; d < t->rank; d++)
    if (blocks->sizes[d] <= 0 || t->sizes[d] % blocks->sizes[d]) return false;
  return true;
}

static bool has_size(const ect_operand *a, const ect_operand *b) {
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->sizes[d] != b->sizes[d]) return false;
  return a->rank == b->rank;
}

/* ---- quantised ------------------------------------------------------------------------------- */

/* Shows scales along an axis as blocks. */
static uint32_t along_axis(ecm_node *n, const ect_operand *data, ect_operand *scale) {
  ect_operand axis;
  EC_BACKEND_TRY(read_parameter(n, "axis", &axis));
  const size_t count = ect_element_count(scale);
  if (ect_element_count(&axis) != 1) return ecm_refuse(n, "axis is not an int");
  double at = ect_element_at(&axis, 0);
  if (at < 0) at += data->rank;
  if (!(at >= 0 && at < data->rank)) return ecm_refuse(n, "axis is out of range");
  scale->rank = data->rank;
  for (uint32_t d = 0; d < data->rank; d++) scale->sizes[d] = 1;
  if (count != 1 && (int64_t)count != data->sizes[(size_t)at])
    return ecm_refuse(n, "scales or zero points are neither one nor one for each channel");
  scale->sizes[(size_t)at] = (int64_t)count;
  return EC_BACKEND_OK;
}

/* Refuses scales, and zero points if there are any, that do not divide a tensor into blocks. */
static uint32_t check_blocks(ecm_node *n, const ect_operand *t, const ect_operand *scale,
                             const ect_operand *zero) {
  if (scale->rank != t->rank || !has_blocks(t, scale) ||
      (zero && (zero->rank != t->rank || !has_blocks(t, zero))))
    return ecm_refuse(n, "scales or offsets do not divide the data into blocks");
  return EC_BACKEND_OK;
}

/* Returns (number - zero) * scale, both of the block that has element i of `t`. */
static double scaled(double number, const ect_operand *t, size_t i, const ect_operand *scale,
                     const ect_operand *zero) {
  const double offset = zero ? ect_element_at(zero, block_of(t, zero, i)) : 0;
  const double by = ect_element_at(scale, block_of(t, scale, i));
  return (double)((float)(number - offset) * (float)by);
}

static uint32_t scale_blocks(ecm_node *n, const ect_operand *data, const ect_operand *scale,
                             const ect_operand *zero, ect_operand *out) {
  uint8_t *items = NULL;
  const size_t count = ect_element_count(data);
  EC_BACKEND_TRY(check_float(n, out));
  if (!has_size(out, data)) return ecm_refuse(n, "the result has another shape");
  EC_BACKEND_TRY(check_blocks(n, data, scale, zero));
  EC_BACKEND_TRY(open_result(n, out, count, &items));
  for (size_t i = 0; i < count; i++)
    write_number(out, items, i, scaled(ect_element_at(data, i), data, i, scale, zero));
  return EC_BACKEND_OK;
}

static uint32_t affine(ecm_node *n, ect_operand *out) {
  ect_operand data, scale, zero;
  EC_BACKEND_TRY(read_parameter(n, "quantized_data", &data));
  EC_BACKEND_TRY(read_parameter(n, "scale", &scale));
  EC_BACKEND_TRY(read_parameter(n, "zero_point", &zero));
  if (data.rank) {
    EC_BACKEND_TRY(along_axis(n, &data, &scale));
    EC_BACKEND_TRY(along_axis(n, &data, &zero));
  }
  return scale_blocks(n, &data, &scale, &zero, out);
}

static uint32_t blockwise(ecm_node *n, ect_operand *out) {
  ect_operand data, scale, offset;
  bool has_offset = false;
  EC_BACKEND_TRY(read_parameter(n, "data", &data));
  EC_BACKEND_TRY(read_parameter(n, "scale", &scale));
  EC_BACKEND_TRY(ecm_constant(n, "offset", &offset, &has_offset));
  return scale_blocks(n, &data, &scale, has_offset ? &offset : NULL, out);
}

static uint32_t cast(ecm_node *n, ect_operand *out) {
  ect_operand from;
  uint8_t *items = NULL;
  EC_BACKEND_TRY(read_parameter(n, "source_val", &from));
  EC_BACKEND_TRY(open_result(n, out, ect_element_count(&from), &items));
  for (size_t i = 0; i < ect_element_count(out); i++)
    write_number(out, items, i, ect_element_at(&from, i));
  return EC_BACKEND_OK;
}

/* ---- palettised ------------------------------------------------------------------------------ */

/* Returns item i of a stream of at most 8 bits each, the lowest first. */
static unsigned bits_at(const ect_operand *o, size_t i, unsigned bits) {
  const size_t at = i * bits / 8;
  unsigned both = o->data[at];
  if (at + 1 < o->data_size) both |= (unsigned)o->data[at + 1] << 8;
  return both >> (i * bits % 8) & ((1u << bits) - 1);
}

/* One table, and indices packed as bytes. */
static uint32_t look_up_packed(ecm_node *n, const ect_operand *indices, const ect_operand *lut,
                               ect_operand *out) {
  uint8_t *items = NULL;
  unsigned bits = 0;
  const size_t entries = ect_element_count(lut);
  while (bits < 8 && (size_t)1 << bits < entries) bits++;
  if ((size_t)1 << bits != entries || !bits) return ecm_refuse(n, "the lut has not 2^n entries");
  EC_BACKEND_TRY(open_result(n, out, indices->data_size * 8 / bits, &items));
  for (size_t i = 0; i < ect_element_count(out); i++)
    write_number(out, items, i, ect_element_at(lut, bits_at(indices, i, bits)));
  return EC_BACKEND_OK;
}

typedef struct palette {
  const ect_operand *indices, *lut;
  ect_operand tables; /* the lut's dimensions that divide the indices into blocks */
  size_t entries, width;
  uint32_t axis; /* of vectors */
} palette;

static uint32_t open_palette(ecm_node *n, const ect_operand *indices, const ect_operand *lut,
                             palette *p) {
  ect_operand axis;
  bool has_axis = false;
  *p = (palette){.indices = indices, .lut = lut, .tables = *lut};
  p->tables.rank -= 2;
  p->entries = (size_t)lut->sizes[lut->rank - 2];
  p->width = (size_t)lut->sizes[lut->rank - 1];
  if (!p->width || p->width > MAX_VECTOR || !p->entries || !has_blocks(indices, &p->tables))
    return ecm_refuse(n, "the lut does not divide the indices into blocks");
  EC_BACKEND_TRY(ecm_constant(n, "vector_axis", &axis, &has_axis));
  if (!has_axis)
    return p->width == 1 ? (uint32_t)EC_BACKEND_OK : ecm_refuse(n, "vectors without vector_axis");
  double at = ect_element_count(&axis) == 1 ? ect_element_at(&axis, 0) : -1;
  if (at < 0) at += indices->rank;
  if (!(at >= 0 && at < indices->rank)) return ecm_refuse(n, "vector_axis is out of range");
  p->axis = (uint32_t)at;
  return EC_BACKEND_OK;
}

static uint32_t look_up(ecm_node *n, const ect_operand *indices, const ect_operand *lut,
                        ect_operand *out) {
  palette p;
  uint8_t *items = NULL;
  size_t inner = 1;
  EC_BACKEND_TRY(open_palette(n, indices, lut, &p));
  ect_operand expected = *indices;
  if (p.width > 1) expected.sizes[p.axis] *= (int64_t)p.width;
  if (!has_size(out, &expected)) return ecm_refuse(n, "the result has another shape");
  for (uint32_t d = p.axis + 1; d < indices->rank; d++)
    inner *= (size_t)indices->sizes[d];
  const size_t count = ect_element_count(indices);
  EC_BACKEND_TRY(open_result(n, out, count * p.width, &items));
  for (size_t i = 0; i < count; i++) {
    const size_t index = (size_t)ect_element_at(indices, i);
    const size_t table = block_of(indices, &p.tables, i);
    if (index >= p.entries) return ecm_refuse(n, "an index is outside of the lut");
    for (size_t k = 0; k < p.width; k++)
      write_number(out, items, p.width == 1 ? i : (i / inner * p.width + k) * inner + i % inner,
                   ect_element_at(lut, (table * p.entries + index) * p.width + k));
  }
  return EC_BACKEND_OK;
}

static uint32_t palettised(ecm_node *n, ect_operand *out) {
  ect_operand indices, lut;
  EC_BACKEND_TRY(read_parameter(n, "indices", &indices));
  EC_BACKEND_TRY(read_parameter(n, "lut", &lut));
  if (indices.dtype != ECM_UINT8) return ecm_refuse(n, "indices are not unsigned");
  if (lut.rank == 1) return look_up_packed(n, &indices, &lut, out);
  if (lut.rank != indices.rank + 2) return ecm_refuse(n, "the lut has a wrong rank");
  return look_up(n, &indices, &lut, out);
}

/* ---- sparse ---------------------------------------------------------------------------------- */

static uint32_t sparse_to_dense(ecm_node *n, ect_operand *out) {
  ect_operand data, mask;
  uint8_t *items = NULL;
  size_t used = 0;
  EC_BACKEND_TRY(read_parameter(n, "nonzero_data", &data));
  EC_BACKEND_TRY(read_parameter(n, "mask", &mask));
  const bool packed = !has_size(&mask, out);
  const size_t limit = packed ? mask.data_size * 8 : ect_element_count(&mask);
  EC_BACKEND_TRY(open_result(n, out, limit, &items));
  const size_t count = ect_element_count(out), elements = ect_element_count(&data);
  for (size_t i = 0; i < count; i++) {
    const bool set = packed ? bits_at(&mask, i, 1) : ect_element_at(&mask, i) != 0;
    if (set && used == elements) return ecm_refuse(n, "the mask has more ones than nonzero_data");
    write_number(out, items, i, set ? ect_element_at(&data, used++) : 0);
  }
  return used == elements ? (uint32_t)EC_BACKEND_OK
                       : ecm_refuse(n, "the mask has fewer ones than nonzero_data");
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  uint32_t (*compute)(ecm_node *n, ect_operand *out);
} rows[] = {
    {"constexpr_affine_dequantize", affine},
    {"constexpr_blockwise_shift_scale", blockwise},
    {"constexpr_cast", cast},
    {"constexpr_lut_to_dense", palettised},
    {"constexpr_sparse_to_dense", sparse_to_dense},
};

bool ecm_is_constexpr(ect_text type) {
  static const char prefix[] = "constexpr_";
  return type.size >= sizeof prefix - 1 && memcmp(type.data, prefix, sizeof prefix - 1) == 0;
}

uint32_t ecm_constexpr(ecm_node *n, ect_operand *out) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (ect_text_is(n->node->op, rows[i].name)) return rows[i].compute(n, out);
  return ecm_refuse(n, "the operator is not supported");
}

/* ---- sparse, and quantised or palettised ----------------------------------------------------- */

/* Finds where in the dense tensor the elements of a sparse one are. */
static uint32_t find_ones(ecm_node *n, const ect_operand *mask, size_t wanted, size_t **out) {
  size_t used = 0;
  if (wanted > SIZE_MAX / 16) return ecm_refuse(n, "too many elements");
  *out = ect_own(&n->g->program, wanted * sizeof **out);
  if (!*out) return ect_refuse(n->g, EC_BACKEND_ALLOCATION_FAILED, "no memory for a mask");
  for (size_t i = 0; i < ect_element_count(mask); i++) {
    if (ect_element_at(mask, i) == 0) continue;
    if (used == wanted) return ecm_refuse(n, "the mask has more ones than there are elements");
    (*out)[used++] = i;
  }
  return used == wanted ? (uint32_t)EC_BACKEND_OK
                        : ecm_refuse(n, "the mask has fewer ones than there are elements");
}

/* Allocates the elements of a sparse result, one for each of `data`, and finds their places. */
static uint32_t open_sparse(ecm_node *n, const ect_operand *mask, const ect_operand *data,
                            ect_operand *out, size_t **places, uint8_t **items) {
  const size_t count = ect_element_count(data);
  EC_BACKEND_TRY(find_ones(n, mask, count, places));
  if (out->rank != 1 || out->sizes[0] != (int64_t)count)
    return ecm_refuse(n, "the result has another shape");
  return open_result(n, out, count, items);
}

static uint32_t look_up_sparse(ecm_node *n, const ect_operand *mask, ect_operand *out) {
  ect_operand data, lut;
  palette p;
  uint8_t *items = NULL;
  size_t *places = NULL;
  EC_BACKEND_TRY(read_parameter(n, "indices_nonzero_data", &data));
  EC_BACKEND_TRY(read_parameter(n, "lut", &lut));
  if (data.dtype != ECM_UINT8 || lut.rank != mask->rank + 2)
    return ecm_refuse(n, "indices or lut are of a wrong dtype or rank");
  EC_BACKEND_TRY(open_palette(n, mask, &lut, &p));
  if (p.width != 1) return ecm_refuse(n, "vectors of sparse weights");
  EC_BACKEND_TRY(open_sparse(n, mask, &data, out, &places, &items));
  const size_t count = ect_element_count(&data);
  for (size_t i = 0; i < count; i++) {
    const size_t index = (size_t)ect_element_at(&data, i);
    const size_t table = block_of(mask, &p.tables, places[i]);
    if (index >= p.entries) return ecm_refuse(n, "an index is outside of the lut");
    write_number(out, items, i, ect_element_at(&lut, table * p.entries + index));
  }
  return EC_BACKEND_OK;
}

static uint32_t scale_sparse(ecm_node *n, const ect_operand *mask, ect_operand *out) {
  ect_operand data, scale, zero;
  uint8_t *items = NULL;
  size_t *places = NULL;
  bool has_zero = false;
  EC_BACKEND_TRY(read_parameter(n, "nonzero_data", &data));
  EC_BACKEND_TRY(read_parameter(n, "scale", &scale));
  EC_BACKEND_TRY(ecm_constant(n, "offset", &zero, &has_zero));
  EC_BACKEND_TRY(check_float(n, out));
  const ect_operand *offset = has_zero ? &zero : NULL;
  EC_BACKEND_TRY(check_blocks(n, mask, &scale, offset));
  EC_BACKEND_TRY(open_sparse(n, mask, &data, out, &places, &items));
  const size_t count = ect_element_count(&data);
  for (size_t i = 0; i < count; i++)
    write_number(out, items, i,
                 scaled(ect_element_at(&data, i), mask, places[i], &scale, offset));
  return EC_BACKEND_OK;
}

uint32_t ecm_constexpr_sparse(ecm_node *n) {
  const bool looks_up = ect_text_is(n->node->op, "constexpr_lut_to_sparse");
  const ect_link *results = ect_outputs(n->g, n->node);
  ect_operand mask, *out = &n->g->operands[results[1].operand];
  if (!looks_up && !ect_text_is(n->node->op, "constexpr_sparse_blockwise_shift_scale"))
    return ecm_refuse(n, "the operator is not supported");
  EC_BACKEND_TRY(read_parameter(n, looks_up ? "indices_mask" : "data_mask", &mask));
  EC_BACKEND_TRY(looks_up ? look_up_sparse(n, &mask, out) : scale_sparse(n, &mask, out));
  mask.name = n->g->operands[results[0].operand].name;
  n->g->operands[results[0].operand] = mask;
  return EC_BACKEND_OK;
}
