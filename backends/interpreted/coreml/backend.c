/* CoreMLBackend: the MIL program of a payload as a program that the runtime runs on the CPU. */
#include <string.h>

#include "../delegate.h"
#include "../backends.h"
#include "describe.h"
#include "function.h"
#include "translate.h"

enum { MOST_ARGUMENTS = 1024 };

typedef struct border {
  int64_t *inputs, *outputs;
  size_t input_count, output_count;
} border;

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static uint32_t define_input(void *user, ecm_bytes name, ecm_bytes type) {
  ecm_model *m = user;
  ecm_value value;
  EC_BACKEND_TRY(ecm_read_type(m, type, &value));
  if (value.is_state) EC_BACKEND_TRY(ecm_add_state(m, &value));
  return ecm_define(m, name, &value);
}

/* Reads the values of a list of names in metadata.json. */
static uint32_t read_list(ecm_model *m, const ecm_function *f, const char *member, int64_t *ids,
                          size_t *count) {
  uint32_t list = 0, t = 0;
  EC_BACKEND_TRY(ecm_function_names(m, f, member, &list, &t));
  for (; t; t = ecm_json_next(&f->metadata, list, t)) {
    const ecm_bytes name = ecm_function_text(f, t);
    const uint32_t number = ect_names_find(&m->names, name);
    if (*count == MOST_ARGUMENTS)
      return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED, "more than %d %s", MOST_ARGUMENTS,
                             member);
    if (number == UINT32_MAX)
      return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                             "metadata.json: '%.*s' of %s is not a value of the ML program",
                             ecm_clip(name, 80), (const char *)name.data, member);
    EC_BACKEND_TRY(ecm_tensor(m, &m->values[number], &ids[(*count)++]));
  }
  return EC_BACKEND_OK;
}

static uint32_t translate(ecm_model *m, const ecm_function *f, border *b) {
  EC_BACKEND_TRY(ecm_function_inputs(m, f, define_input, m));
  EC_BACKEND_TRY(read_list(m, f, "inputNames", b->inputs, &b->input_count));
  EC_BACKEND_TRY(ecm_translate(m, f->block));
  EC_BACKEND_TRY(read_list(m, f, "outputNames", b->outputs, &b->output_count));
  ect_copy_shared(&m->program, b->inputs, b->input_count, b->outputs, b->output_count);
  return EC_BACKEND_OK;
}

/* ---- the interface --------------------------------------------------------------------------- */

static uint32_t open_model(ecm_model *m, ect_delegate *out) {
  const ec_host *host = m->c.host;
  ecm_function f;
  border b = {.inputs = host->alloc(MOST_ARGUMENTS * sizeof *b.inputs),
              .outputs = host->alloc(MOST_ARGUMENTS * sizeof *b.outputs)};
  uint32_t status = ecm_function_open(m, &f);
  if (status == EC_BACKEND_OK && (!b.inputs || !b.outputs))
    status = EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for inputs");
  if (status == EC_BACKEND_OK) status = translate(m, &f, &b);
  if (status == EC_BACKEND_OK)
    status = ect_delegate_open(m->c.call, &m->program, b.inputs, NULL, b.input_count, b.outputs,
                               b.output_count, out);
  ecm_function_close(&f);
  host->free(b.inputs);
  host->free(b.outputs);
  return status;
}

static uint32_t open_payload(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                             ect_delegate *out) {
  const ec_backend_call c = {host, call};
  ecm_model model;
  EC_BACKEND_TRY(ecm_model_open(&c, what, &model));
  const uint32_t status = open_model(&model, out);
  ecm_model_close(&model);
  return status;
}

static uint32_t init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                     const ec_backend_init *what, void **handle) {
  (void)self;
  return ect_delegate_init(host, call, what, open_payload, handle);
}

static uint32_t describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_init *what, const ec_backend_visitor *visitor) {
  (void)self;
  const ec_backend_call c = {host, call};
  return ecm_describe(&c, what, visitor);
}

const ec_backend ecm_backend = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_backend),
    .id = "CoreMLBackend",
    .version = "interpreted on the CPU",
    .init = init,
    .execute = ect_delegate_execute,
    .destroy = ect_delegate_destroy,
    .describe = describe,
    .reset = ect_delegate_reset,
};
