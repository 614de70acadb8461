/* Values of a payload: shapes, datatypes, constants and quantisation, each checked separately. The
 * requirements of nodes on their values are checked in shapes_*.c. */
#include "payload/values.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "core/half.h"
#include "core/checked.h"
#include "payload/constants.h"
#include "payload/payload.h"
#include "payload/schema.h"

const ecx_dtype_info ecx_dtypes[ECX_DTYPES] = {
#define ECX_DTYPE(number, name, bits, scalar, as) [number] = {#name, bits, scalar, as},
#include "payload/dtypes.def"
#undef ECX_DTYPE
};

enum { SMALLEST_GROUP = XNN_MIN_BLOCKSIZE, ZERO_POINT_4BIT = 8 };

/* Datatypes of each scheme, as bits. */
#define BIT(name) (1u << ECX_##name)
static const uint32_t scheme_dtypes[] = {
  [ECX_PLAIN] = BIT(fp32) | BIT(fp16) | BIT(bf16) | BIT(int32),
  [ECX_PER_TENSOR] = BIT(qint8) | BIT(quint8) | BIT(qint32),
  [ECX_PER_CHANNEL] = BIT(qcint8) | BIT(qcint32) | BIT(qcint4),
  [ECX_PER_GROUP] = BIT(qbint4),
  [ECX_PER_TOKEN] = BIT(qdint8),
};
static const char *const scheme_names[] = {
  [ECX_PLAIN] = "no quantisation",
  [ECX_PER_TENSOR] = "quantisation per tensor",
  [ECX_PER_CHANNEL] = "quantisation per channel",
  [ECX_PER_GROUP] = "quantisation per group",
  [ECX_PER_TOKEN] = "dynamic quantisation",
};

/* The state of reading a value. */
typedef struct reader {
  const ecx_call *c;
  const ecx_payload *payload;
  uint32_t index;
  ecx_value *value;
} reader;

static uint32_t fail_value(const reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static uint32_t fail_value(const reader *r, const char *fmt, ...) {
  char text[ECX_TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return ecx_fail(r->c, EC_BACKEND_INVALID_PROGRAM, "payload: value %u: %s", (unsigned)r->index,
                  text);
}

bool ecx_shape_count(const ecx_shape *shape, size_t *out) {
  *out = 1;
  for (size_t d = 0; d < shape->rank; d++)
    if (!ec_mul_size(*out, shape->dims[d], out)) return false;
  return true;
}

bool ecx_shapes_equal(const ecx_shape *a, const ecx_shape *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Computes the bytes of elements with `bits` bits; 4-bit elements pad each row to whole bytes. */
static bool bytes_of(const ecx_shape *shape, unsigned bits, size_t *out) {
  ecx_shape rows = *shape;
  if (bits < 8 && rows.rank) rows.dims[rows.rank - 1] = (rows.dims[rows.rank - 1] + 1) / 2;
  return ecx_shape_count(&rows, out) && ec_mul_size(*out, bits < 8 ? 1 : bits / 8, out);
}

bool ecx_value_bytes(const ecx_value *value, size_t *out) {
  bool widened = value->dtype == ECX_bf16;
  return bytes_of(&value->shape, widened ? 32 : ecx_dtypes[value->dtype].bits, out);
}

const char *ecx_shape_text(const ecx_shape *shape, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t d = 0; d < shape->rank && used < size; d++) {
    int n = snprintf(text + used, size - used, d ? ", %zu" : "[%zu", shape->dims[d]);
    used += n > 0 ? (size_t)n : 0;
  }
  if (used < size) snprintf(text + used, size - used, shape->rank ? "]" : "[]");
  return text;
}

static uint32_t read_shape(const reader *r, ec_fb_table table) {
  ec_fb_vec dims = ec_fb_vector(table, ECX_Tensor_dims);
  ecx_value *v = r->value;
  if (dims.count > XNN_MAX_TENSOR_DIMS)
    return fail_value(r, "%u dimensions, XNNPACK supports at most %d", (unsigned)dims.count,
                      XNN_MAX_TENSOR_DIMS);
  const uint32_t stated = ec_fb_u32(table, ECX_Tensor_num_dims);
  if (stated && stated != dims.count)
    return fail_value(r, "num_dims %u, its shape has %u dimensions", (unsigned)stated,
                      (unsigned)dims.count);
  v->shape.rank = dims.count;
  for (uint32_t d = 0; d < dims.count; d++)
    v->shape.dims[d] = (uint32_t)ec_fb_vec_i32(dims, d);
  size_t bytes;
  if (!ecx_value_bytes(v, &bytes) || bytes > ECX_MAX_VALUE_BYTES) {
    char text[ECX_TEXT];
    return fail_value(r, "shape %s is too large", ecx_shape_text(&v->shape, text, sizeof text));
  }
  return EC_BACKEND_OK;
}

static bool is_known(uint64_t dtype) {
  return dtype < ECX_DTYPES && ecx_dtypes[dtype].name;
}

/* Reads shape, datatype, and the role in the delegate. */
static uint32_t read_tensor(const reader *r, ec_fb_table table) {
  ecx_value *v = r->value;
  uint64_t dtype = ec_fb_get(table, ECX_Tensor_datatype, 2, 0);
  uint64_t dynamic = ec_fb_get(table, ECX_Tensor_dynamic_datatype, 2, 0);
  uint32_t flags = ec_fb_u32(table, ECX_Tensor_flags);
  if (!is_known(dtype))
    return fail_value(r, "datatype number %llu is unknown to this backend",
                      (unsigned long long)dtype);
  if (flags & ~(uint32_t)(XNN_VALUE_FLAG_EXTERNAL_INPUT | XNN_VALUE_FLAG_EXTERNAL_OUTPUT))
    return fail_value(r, "flags 0x%x, expected those of an input (1) or an output (2)",
                      (unsigned)flags);
  v->dtype = (ecx_dtype)dtype;
  v->id = ec_fb_u32(table, ECX_Tensor_id);
  v->is_input = flags & XNN_VALUE_FLAG_EXTERNAL_INPUT;
  v->is_output = flags & XNN_VALUE_FLAG_EXTERNAL_OUTPUT;
  v->external = v->is_input || v->is_output ? ec_fb_u32(table, ECX_Tensor_external_id) : ECX_NONE;
  v->producer = ECX_NONE;
  v->quantize_here = dynamic != 0;
  if (v->is_input && v->is_output) return fail_value(r, "is both an input and an output");
  if (dynamic && (dynamic != ECX_qint8 || !v->is_input))
    return fail_value(r, "dynamic quantisation to datatype number %llu, expected qint8 (%d) of an "
                      "input", (unsigned long long)dynamic, ECX_qint8);
  if ((v->is_input || v->is_output) && ecx_dtypes[dtype].scalar < 0)
    return fail_value(r, "%s cannot be an argument", ecx_dtypes[dtype].name);
  return read_shape(r, table);
}

static uint32_t read_data(const reader *r, ec_fb_table table) {
  ecx_value *v = r->value;
  uint32_t buffer = ec_fb_u32(table, ECX_Tensor_buffer);
  char what[ECX_TEXT], shape[ECX_TEXT / 2];
  size_t bytes;
  if (!buffer) return EC_BACKEND_OK;
  if (v->is_input || v->is_output || v->dtype == ECX_qdint8)
    return fail_value(r, "has data, but is computed or passed at run time");
  snprintf(what, sizeof what, "payload: value %u", (unsigned)r->index);
  ECX_TRY(ecx_constant(r->c, r->payload, buffer, what, &v->data));
  if (!bytes_of(&v->shape, ecx_dtypes[v->dtype].bits, &bytes) || bytes > v->data.size)
    return fail_value(r, "%s of %s needs %zu bytes, its data has %zu",
                      ecx_shape_text(&v->shape, shape, sizeof shape), ecx_dtypes[v->dtype].name,
                      bytes, v->data.size);
  v->data.size = bytes;
  return v->dtype == ECX_bf16 ? ecx_widen(r->c, &v->data, false) : EC_BACKEND_OK;
}

/* ---- quantisation ---------------------------------------------------------------------------- */

static bool is_scale(float scale) {
  return isnormal(scale) && scale > 0;
}

static uint32_t read_per_tensor(const reader *r, ec_fb_table table) {
  static const struct {
    int32_t low, high;
  } ranges[ECX_DTYPES] = {[ECX_qint8] = {-128, 127}, [ECX_quint8] = {0, 255}};
  ecx_value *v = r->value;
  v->scale = ec_fb_f32(table, ECX_PerTensor_scale);
  v->zero_point = ec_fb_i32(table, ECX_PerTensor_zero_point);
  if (!is_scale(v->scale)) return fail_value(r, "scale %g, expected a positive number", v->scale);
  if (v->zero_point < ranges[v->dtype].low || v->zero_point > ranges[v->dtype].high)
    return fail_value(r, "zero point %d of %s, expected %d to %d", (int)v->zero_point,
                      ecx_dtypes[v->dtype].name, (int)ranges[v->dtype].low,
                      (int)ranges[v->dtype].high);
  return EC_BACKEND_OK;
}

/* Checks the number of scales that a payload may repeat. */
static uint32_t check_scale_count(const reader *r, uint32_t count, size_t expected) {
  if (!count || count == expected) return EC_BACKEND_OK;
  return fail_value(r, "scale_count %u, expected %zu", (unsigned)count, expected);
}

/* Reads scales: constant `buffer`, or a list inside the FlatBuffer if that is 0. */
static uint32_t read_scales(const reader *r, uint32_t buffer, ec_fb_vec list, size_t item,
                            size_t expected) {
  ecx_value *v = r->value;
  char what[ECX_TEXT];
  snprintf(what, sizeof what, "payload: scales of value %u", (unsigned)r->index);
  if (buffer)
    ECX_TRY(ecx_constant(r->c, r->payload, buffer, what, &v->scales));
  else
    ECX_TRY(ecx_constant_inline(r->c, list.items, (size_t)list.count * item, &v->scales));
  if (v->scales.size / item < expected)
    return fail_value(r, "%zu scales, expected %zu", v->scales.size / item, expected);
  return EC_BACKEND_OK;
}

static uint32_t read_per_channel(const reader *r, ec_fb_table table) {
  ecx_value *v = r->value;
  v->channel_dim = ec_fb_u32(table, ECX_PerChannel_channel_dim);
  if (v->channel_dim >= v->shape.rank)
    return fail_value(r, "channels are dimension %u of %zu", (unsigned)v->channel_dim,
                      v->shape.rank);
  size_t count = v->shape.dims[v->channel_dim];
  ECX_TRY(check_scale_count(r, ec_fb_u32(table, ECX_PerChannel_scale_count), count));
  ECX_TRY(read_scales(r, ec_fb_u32(table, ECX_PerChannel_scale_buffer),
                      ec_fb_vector(table, ECX_PerChannel_scale), sizeof(float), count));
  const float *scales = v->scales.at;
  for (size_t i = 0; i < count; i++)
    if (!is_scale(scales[i]))
      return fail_value(r, "scale %g of channel %zu, expected a positive number", scales[i], i);
  v->zero_point = v->dtype == ECX_qcint4 ? ZERO_POINT_4BIT : 0;
  return EC_BACKEND_OK;
}

/* Rounds up to the nearest bfloat16, as the exporter does for its own list. */
static uint16_t round_up_to_bf16(float scale) {
  return (uint16_t)(ec_float_bits(scale * 1.00389105f) >> 16);
}

/* Returns whether all are positive and normal. There are millions of them: no call for each. */
static bool are_bf16_scales(const uint16_t *scales, size_t count) {
  enum { MIN_NORMAL = 0x0080, INFINITE = 0x7f80 };
  unsigned wrong = 0;
  for (size_t i = 0; i < count; i++) wrong |= scales[i] < MIN_NORMAL || scales[i] >= INFINITE;
  return !wrong;
}

/* Converts the float32 scales of old files to bfloat16. */
static uint32_t narrow_scales(const reader *r, size_t count) {
  ecx_data wide = r->value->scales;
  uint16_t *scales = r->c->host->alloc(count * sizeof *scales + ECX_EXTRA);
  if (scales)
    for (size_t i = 0; i < count; i++) scales[i] = round_up_to_bf16(((const float *)wide.at)[i]);
  ecx_data_close(r->c->host, &wide);
  r->value->scales =
      (ecx_data){.at = scales, .size = count * sizeof *scales, .copy = scales};
  return scales ? EC_BACKEND_OK
                : ecx_fail(r->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu scales", count);
}

static uint32_t read_per_group(const reader *r, ec_fb_table table) {
  ecx_value *v = r->value;
  uint32_t buffer = ec_fb_u32(table, ECX_PerGroup_scale_buffer);
  v->channel_dim = ec_fb_u32(table, ECX_PerGroup_channel_dim);
  v->group_size = ec_fb_u32(table, ECX_PerGroup_group_size);
  v->zero_point = ZERO_POINT_4BIT;
  if (v->shape.rank != 2 || v->channel_dim != 0)
    return fail_value(r, "quantisation per group of %zu dimensions along dimension %u, expected "
                      "a matrix along 0", v->shape.rank, (unsigned)v->channel_dim);
  if (v->group_size == 0 || v->group_size % SMALLEST_GROUP ||
      v->shape.dims[1] % v->group_size)
    return fail_value(r, "groups of %u in rows of %zu, expected a multiple of %d that divides them",
                      (unsigned)v->group_size, v->shape.dims[1], SMALLEST_GROUP);
  size_t count = v->shape.dims[0] * (v->shape.dims[1] / v->group_size);
  ECX_TRY(check_scale_count(r, ec_fb_u32(table, ECX_PerGroup_scale_count), count));
  ec_fb_vec wide = ec_fb_vector(table, ECX_PerGroup_scale);
  bool is_wide = !buffer && wide.count;
  if (is_wide)
    ECX_TRY(read_scales(r, 0, wide, sizeof(float), count));
  else
    ECX_TRY(read_scales(r, buffer, ec_fb_vector(table, ECX_PerGroup_scale_bf16), sizeof(uint16_t),
                        count));
  if (is_wide) ECX_TRY(narrow_scales(r, count));
  const uint16_t *scales = v->scales.at;
  if (are_bf16_scales(scales, count)) return EC_BACKEND_OK;
  size_t wrong = 0;
  while (are_bf16_scales(scales + wrong, 1)) wrong++;
  return fail_value(r, "scale %g of group %zu, expected a positive number",
                    (double)ec_bf16_to_f32(scales[wrong]), wrong);
}

static uint32_t read_per_token(const reader *r, ec_fb_table table) {
  ecx_value *v = r->value;
  v->nonbatch_dims = ec_fb_u32(table, ECX_PerToken_nonbatch_dims);
  if (v->nonbatch_dims == 0 || v->nonbatch_dims > v->shape.rank)
    return fail_value(r, "quantisation over %u of %zu dimensions", (unsigned)v->nonbatch_dims,
                      v->shape.rank);
  return EC_BACKEND_OK;
}

static uint32_t read_plain(const reader *r, ec_fb_table table) {
  (void)r;
  (void)table;
  return EC_BACKEND_OK;
}

static uint32_t (*const read_scheme[])(const reader *r, ec_fb_table table) = {
  [ECX_PLAIN] = read_plain,
  [ECX_PER_TENSOR] = read_per_tensor,
  [ECX_PER_CHANNEL] = read_per_channel,
  [ECX_PER_GROUP] = read_per_group,
  [ECX_PER_TOKEN] = read_per_token,
};
static const ecx_scheme scheme_of_type[] = {
  [ECX_QUANT_PER_CHANNEL] = ECX_PER_CHANNEL,
  [ECX_QUANT_PER_TENSOR] = ECX_PER_TENSOR,
  [ECX_QUANT_PER_TOKEN] = ECX_PER_TOKEN,
  [ECX_QUANT_PER_GROUP] = ECX_PER_GROUP,
};

uint32_t ecx_value_read(const ecx_call *c, const ecx_payload *payload, uint32_t index,
                        ecx_value *out) {
  reader r = {c, payload, index, out};
  ec_fb_table value = ec_fb_vec_table(ec_fb_vector(payload->root, ECX_Graph_values), index);
  ec_fb_table tensor = ec_fb_union(value, ECX_Value_value, ECX_VALUE_PLAIN);
  ec_fb_table quantized = ec_fb_union(value, ECX_Value_value, ECX_VALUE_QUANTIZED);
  ec_fb_table how = NULL;
  out->scheme = ECX_PLAIN;
  if (quantized) {
    uint8_t type = ec_fb_u8(quantized, ECX_QuantizedTensor_quantization_type);
    tensor = ec_fb_child(quantized, ECX_QuantizedTensor_tensor);
    how = type && type <= ECX_QUANT_PER_GROUP
              ? ec_fb_union(quantized, ECX_QuantizedTensor_quantization, type)
              : NULL;
    if (!how) return fail_value(&r, "quantisation of type %u", (unsigned)type);
    out->scheme = scheme_of_type[type];
  }
  if (!tensor)
    return fail_value(&r, "type %u of a value, expected a tensor",
                      (unsigned)ec_fb_u8(value, ECX_Value_value_type));
  ECX_TRY(read_tensor(&r, tensor));
  if (!(scheme_dtypes[out->scheme] >> out->dtype & 1))
    return fail_value(&r, "%s with %s", ecx_dtypes[out->dtype].name, scheme_names[out->scheme]);
  ECX_TRY(read_scheme[out->scheme](&r, how));
  return read_data(&r, tensor);
}

void ecx_value_close(const ec_host *host, ecx_value *value) {
  ecx_data_close(host, &value->data);
  ecx_data_close(host, &value->scales);
}
