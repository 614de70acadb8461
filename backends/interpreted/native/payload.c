/* The bytes of a graph, verified, and what its methods have in common. */
#include "payload.h"

#include "../fb_text.h"
#include "fields.h"
#include "method.h"

/* Last, because it redefines the macros of schema.def. */
#include "format/schema.h"

static const ec_fb_schema *const union_ArgumentValue[ECN_TYPES];
static const ec_fb_schema *const union_QuantScheme[ECN_SCHEMES];

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

static const ec_fb_schema *const union_QuantScheme[ECN_SCHEMES] = {
    [ECN_AFFINE_GROUP] = &schema_AffineGroup,
    [ECN_PACKED_QUANT] = &schema_PackedQuant,
};

const ec_fb_schema *ecn_payload_schema(void) { return &schema_Program; }

enum { IDENTIFIER_AT = 4, MIN_BYTES = 12 };

uint32_t ecn_verify(const ec_backend_call *c, const uint8_t *data, size_t size, const char *what,
                    ec_fb_vec *methods) {
  ec_error err = {0};
  if (size < MIN_BYTES || memcmp(data + IDENTIFIER_AT, "NPTG", 4) != 0)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
        "%s: %zu bytes without the identifier of a native graph, expected 'NPTG'", what, size);
  const ec_status verified = ec_fb_verify(data, size, &schema_Program, what, &err);
  if (verified != EC_OK) return EC_BACKEND_FAIL(c, (uint32_t)verified, "%s", err.message);
  const ec_fb_table root = ec_fb_root(data);
  const ect_text version = ect_fb_text(root, ECN_Program_version);
  if (version.size && !ect_text_is(version, "1"))
    return EC_BACKEND_FAIL(c, EC_BACKEND_INCOMPATIBLE,
                           "%s: a graph of version '%.*s', expected '1'", what,
                           ECT_CLIP(version, 20));
  *methods = ec_fb_vector(root, ECN_Program_methods);
  return EC_BACKEND_OK;
}

ect_text ecn_method_name(ec_fb_table method) { return ect_fb_text(method, ECN_Method_name); }

/* Adds a key to those of mutated buffers. */
static uint32_t add_mutated(const ec_backend_call *c, ect_text key, ect_names *mutated) {
  return ect_names_set(mutated, key, 0)
             ? (uint32_t)EC_BACKEND_OK
             : EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for names");
}

uint32_t ecn_find_mutated(const ec_backend_call *c, ec_fb_table method, ect_names *mutated) {
  const ec_fb_vec constants = ec_fb_vector(method, ECN_Method_constants);
  const ec_fb_vec specs = ec_fb_vector(method, ECN_Method_output_specs);
  for (uint32_t i = 0; i < constants.count; i++) {
    const ec_fb_table ref = ec_fb_vec_table(constants, i);
    if (ec_fb_bool(ref, ECN_NamedTensorRef_mutated))
      EC_BACKEND_TRY(add_mutated(c, ect_fb_text(ref, ECN_NamedTensorRef_data_key), mutated));
  }
  for (uint32_t i = 0; i < specs.count; i++) {
    const ec_fb_table spec = ec_fb_vec_table(specs, i);
    if (ec_fb_u8(spec, ECN_OutputSpec_kind) == ECN_BUFFER_MUTATION)
      EC_BACKEND_TRY(add_mutated(c, ect_fb_text(spec, ECN_OutputSpec_target), mutated));
  }
  return EC_BACKEND_OK;
}

uint32_t ecn_read_payload(ect_graph *g, const ec_backend_init *what) {
  ec_fb_vec methods;
  ect_names mutated = {.host = g->c.host};
  EC_BACKEND_TRY(ecn_verify(&g->c, what->payload, what->payload_size, "payload", &methods));
  if (methods.count != 1)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "payload: %u methods, expected 1",
                           (unsigned)methods.count);
  const ec_fb_table method = ec_fb_vec_table(methods, 0);
  uint32_t status = ecn_find_mutated(&g->c, method, &mutated);
  if (status == EC_BACKEND_OK) status = ecn_read_method(g, method, &mutated, NULL);
  ect_names_free(&mutated);
  return status;
}
