/* CoreMLBackend: the MIL program of a payload as a program that the runtime runs on the CPU. */
#include <string.h>

#include "../translate/delegate.h"
#include "coreml_backend.h"
#include "json.h"
#include "translate.h"

enum { ML_PROGRAM = 502, FUNCTIONS = 2, MOST_ARGUMENTS = 1024 };

typedef struct border {
  int64_t *inputs, *outputs;
  size_t input_count, output_count;
} border;

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* Defines the inputs of a Function message, and finds its block. */
static uint32_t read_function(ecm_model *m, ecm_bytes function, ecm_bytes *block) {
  ecm_field field, name, type, opset = {0};
  ecm_value value;
  char key[32] = "";
  for (ecm_bytes rest = function; ecm_wire_next(&rest, &field);) {
    if (field.number == 2 && field.wire == ECM_BYTES) opset = field;
    if (field.number != 1) continue;
    if (!ecm_wire_find(field.bytes, 1, &name) || !ecm_wire_find(field.bytes, 2, &type))
      return ecm_fail(&m->c, EC_BACKEND_INVALID_PROGRAM, "an input has no name or type");
    ECM_TRY(ecm_read_type(m, type.bytes, &value));
    ECM_TRY(ecm_define(m, name.bytes, &value));
  }
  if (opset.bytes.size && opset.bytes.size < sizeof key)
    memcpy(key, opset.bytes.data, opset.bytes.size);
  if (!ecm_wire_entry(function, 3, key, block))
    return ecm_fail(&m->c, EC_BACKEND_INVALID_PROGRAM, "the function has no block for opset '%s'",
                    key);
  return EC_BACKEND_OK;
}

static uint32_t find_function(ecm_model *m, ecm_bytes *function) {
  ecm_field program;
  if (!ecm_wire_check(m->files.model))
    return ecm_fail(&m->c, EC_BACKEND_INVALID_PROGRAM, "model.mlmodel is not a protobuf message");
  if (!ecm_wire_find(m->files.model, ML_PROGRAM, &program))
    return ecm_fail(&m->c, EC_BACKEND_NOT_SUPPORTED, "model.mlmodel is not an ML program");
  if (!ecm_wire_entry(program.bytes, FUNCTIONS, "main", function))
    return ecm_fail(&m->c, EC_BACKEND_NOT_SUPPORTED,
                    "the ML program has no function 'main'; several functions are not supported");
  return EC_BACKEND_OK;
}

/* Reads the values of a list of names in metadata.json. */
static uint32_t read_list(ecm_model *m, const ecm_json *j, const char *member, int64_t *ids,
                          size_t *count) {
  const uint32_t list = ecm_json_member(j, 0, member);
  if (!list || j->tokens[list].type != ECM_ARRAY)
    return ecm_fail(&m->c, EC_BACKEND_NOT_SUPPORTED,
                    "metadata.json has no list '%s'; several methods are not supported", member);
  for (uint32_t t = ecm_json_first(j, list); t; t = ecm_json_next(j, list, t)) {
    const ecm_token *text = &j->tokens[t];
    const ecm_bytes name = {j->bytes.data + text->begin, text->end - text->begin};
    const uint32_t number = ecm_names_find(&m->names, name);
    if (*count == MOST_ARGUMENTS)
      return ecm_fail(&m->c, EC_BACKEND_NOT_SUPPORTED, "more than %d %s", MOST_ARGUMENTS, member);
    if (number == UINT32_MAX)
      return ecm_fail(&m->c, EC_BACKEND_INVALID_PROGRAM,
                      "metadata.json: '%.*s' of %s is not a value of the ML program",
                      ecm_clip(name, 80), (const char *)name.data, member);
    ECM_TRY(ecm_tensor(m, &m->values[number], &ids[(*count)++]));
  }
  return EC_BACKEND_OK;
}

/* Copies outputs that are inputs, constants or other outputs, too. */
static void copy_shared(ecm_model *m, border *b) {
  ect_program *p = &m->program;
  for (size_t i = 0; i < b->output_count && !p->failed; i++) {
    ect_tensor t = *ect_tensor_at(p, b->outputs[i]);
    bool shared = t.role != ECT_COMPUTED;
    for (size_t k = 0; k < b->input_count; k++) shared |= b->inputs[k] == b->outputs[i];
    for (size_t k = 0; k < i; k++) shared |= b->outputs[k] == b->outputs[i];
    if (!shared) continue;
    t.role = ECT_COMPUTED;
    t.is_dynamic = true;
    const int64_t from = b->outputs[i], to = ect_add_tensor(p, &t);
    const int64_t args[] = {from, ect_add_bool(p, false), ect_add_none(p), to};
    ect_add_call(p, "aten::_to_copy.out", args, 4, NULL);
    b->outputs[i] = to;
  }
}

static uint32_t translate(ecm_model *m, const ecm_json *metadata, border *b) {
  ecm_bytes function, block;
  ECM_TRY(find_function(m, &function));
  ECM_TRY(read_function(m, function, &block));
  ECM_TRY(read_list(m, metadata, "inputNames", b->inputs, &b->input_count));
  ECM_TRY(ecm_translate(m, block));
  ECM_TRY(read_list(m, metadata, "outputNames", b->outputs, &b->output_count));
  copy_shared(m, b);
  return EC_BACKEND_OK;
}

/* ---- the interface --------------------------------------------------------------------------- */

static uint32_t open_model(ecm_model *m, ect_delegate *out) {
  const ec_host *host = m->c.host;
  ecm_json metadata;
  border b = {.inputs = host->alloc(MOST_ARGUMENTS * sizeof *b.inputs),
              .outputs = host->alloc(MOST_ARGUMENTS * sizeof *b.outputs)};
  uint32_t status = ecm_json_open(&m->c, m->files.metadata, false, "metadata.json", &metadata);
  if (status == EC_BACKEND_OK && (!b.inputs || !b.outputs))
    status = ecm_fail(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for inputs");
  if (status == EC_BACKEND_OK) status = translate(m, &metadata, &b);
  if (status == EC_BACKEND_OK)
    status = ect_delegate_open(m->c.call, &m->program, b.inputs, NULL, b.input_count, b.outputs,
                               b.output_count, out);
  ecm_json_free(&metadata);
  host->free(b.inputs);
  host->free(b.outputs);
  return status;
}

static uint32_t open_payload(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                             ect_delegate *out) {
  const ecm_call c = {host, call};
  ecm_model model;
  ECM_TRY(ecm_model_open(&c, (ecm_bytes){what->payload, what->payload_size}, &model));
  const uint32_t status = open_model(&model, out);
  ecm_model_close(&model);
  return status;
}

static uint32_t init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                     const ec_backend_init *what, void **handle) {
  (void)self;
  return ect_delegate_init(host, call, what, open_payload, handle);
}

static uint32_t execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                        void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  const ect_delegate *d = handle;
  if (count != d->input_count + d->output_count)
    return host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                      "%zu arguments, the ML program has %zu inputs and %zu outputs", count,
                      d->input_count, d->output_count);
  return ect_delegate_run(d, call, args, count);
}

const ec_backend ecm_backend = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_backend),
    .id = "CoreMLBackend",
    .version = "interpreted on the CPU",
    .init = init,
    .execute = execute,
    .destroy = ect_delegate_destroy,
};
