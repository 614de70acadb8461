/* Verification of a payload's structure. */
#include "payload.h"

#include <string.h>

#include "fields.h"
/* Last, because it redefines the macros of schema.def. */
#include "format/schema.h"

static const ec_fb_schema *const union_ArgumentValue[ECN_TYPES];

#include "schema.def"

static const ec_fb_schema *const union_ArgumentValue[ECN_TYPES] = {
    [ECN_TENSOR] = &schema_TensorArg,
    [ECN_NONE] = &schema_NoneArg,
    [ECN_INT] = &schema_IntArg,
    [ECN_FLOAT] = &schema_FloatArg,
    [ECN_BOOL] = &schema_BoolArg,
    [ECN_STRING] = &schema_StringArg,
    [ECN_SCALAR_TYPE] = &schema_ScalarTypeArg,
    [ECN_INT_LIST] = &schema_IntListArg,
    [ECN_FLOAT_LIST] = &schema_FloatListArg,
    [ECN_BOOL_LIST] = &schema_BoolListArg,
    [ECN_TENSOR_LIST] = &schema_TensorListArg,
    [ECN_OPTIONAL_TENSOR_LIST] = &schema_OptionalTensorListArg,
    [ECN_GRAPH] = &schema_GraphArg,
};

const ec_fb_schema *ecn_payload_schema(void) { return &schema_Program; }

enum { IDENTIFIER_AT = 4, SMALLEST = 12 };

uint32_t ecn_payload_open(const ec_backend_call *c, const void *data, size_t size,
                          ecn_payload *out) {
  const uint8_t *bytes = data;
  ec_error err = {0};
  *out = (ecn_payload){0};
  if (size < SMALLEST || memcmp(bytes + IDENTIFIER_AT, "NPTG", 4) != 0)
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_PROGRAM,
        "payload: %zu bytes without the identifier of a native graph, expected 'NPTG'", size);
  const ec_status status = ec_fb_verify(bytes, size, &schema_Program, "payload", &err);
  if (status != EC_OK) return EC_BACKEND_FAIL(c, (uint32_t)status, "%s", err.message);
  const ec_fb_vec methods = ec_fb_vector(ec_fb_root(bytes), ECN_Program_methods);
  if (methods.count != 1)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED, "payload: %u methods, expected 1",
                           (unsigned)methods.count);
  out->method = ec_fb_vec_table(methods, 0);
  const ec_fb_table graph = ec_fb_child(out->method, ECN_Method_graph);
  if (!graph) return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "payload: no graph");
  ecn_read_graph(graph, out);
  out->constants = ec_fb_vector(out->method, ECN_Method_constants);
  out->specs = ec_fb_vector(out->method, ECN_Method_output_specs);
  out->buffers = ec_fb_vector(out->method, ECN_Method_mutable_buffers);
  return EC_BACKEND_OK;
}

void ecn_read_graph(ec_fb_table graph, ecn_payload *out) {
  out->nodes = ec_fb_vector(graph, ECN_Graph_nodes);
  out->inputs = ec_fb_vector(graph, ECN_Graph_inputs);
  out->outputs = ec_fb_vector(graph, ECN_Graph_outputs);
  out->tensors = ec_fb_vector(graph, ECN_Graph_tensor_values);
}

const char *ecn_operator_name(ec_fb_table node) {
  static const char start[] = "torch.ops.";
  const char *target = (const char *)ecn_text(node, ECN_Node_target).data;
  return strncmp(target, start, sizeof start - 1) == 0 ? target + sizeof start - 1 : target;
}

ect_text ecn_text(ec_fb_table table, unsigned id) {
  const char *found = table ? ec_fb_string(table, id) : NULL;
  return (ect_text){(const uint8_t *)(found ? found : ""), found ? strlen(found) : 0};
}

ect_text ecn_text_at(ec_fb_vec strings, uint32_t index) {
  const char *found = ec_fb_vec_string(strings, index);
  return (ect_text){(const uint8_t *)found, strlen(found)};
}

bool ecn_text_is(ect_text text, const char *expected) {
  return strlen(expected) == text.size && memcmp(text.data, expected, text.size) == 0;
}

int32_t ecn_scalar_type(uint8_t dtype) {
  enum { UINT16 = 16, UINT64 = 18, C10_UINT16 = 27 };
  return dtype >= UINT16 && dtype <= UINT64 ? C10_UINT16 + (dtype - UINT16) : dtype;
}

uint32_t ecn_read_meta(const ec_backend_call *c, ec_fb_table meta, ect_text what, ect_tensor *out) {
  size_t bytes;
  if (!meta)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "tensor '%.80s' has no dtype and sizes",
                           (const char *)what.data);
  const ec_fb_vec sizes = ec_fb_vector(meta, ECN_TensorMeta_sizes);
  *out = (ect_tensor){.dtype = ecn_scalar_type(ec_fb_u8(meta, ECN_TensorMeta_dtype)),
                      .rank = sizes.count, .is_dynamic = true};
  if (!ec_backend_dtype_size(out->dtype) || sizes.count > ECT_MAX_RANK)
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_NOT_SUPPORTED,
        "tensor '%.80s' has ScalarType %d and %u dimensions, expected a known type and "
        "at most %d",
        (const char *)what.data, (int)out->dtype, (unsigned)sizes.count, ECT_MAX_RANK);
  if (ec_fb_field_at(meta, ECN_TensorMeta_quant))
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "tensor '%.80s' has packed quantised weights", (const char *)what.data);
  for (uint32_t d = 0; d < sizes.count; d++) {
    out->sizes[d] = (int64_t)ec_fb_get(ec_fb_vec_table(sizes, d), ECN_Dim_max, 8, UINT64_MAX);
    if (out->sizes[d] < 0)
      return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                             "tensor '%.80s' has no upper bound in dimension %u",
                             (const char *)what.data, (unsigned)d);
  }
  if (!ect_tensor_bytes(out, &bytes))
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "tensor '%.80s' is too large",
                           (const char *)what.data);
  return EC_BACKEND_OK;
}
