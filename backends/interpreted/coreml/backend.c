/* CoreMLBackend: the MIL program of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "describe.h"
#include "function.h"
#include "translate.h"

static uint32_t define_input(void *user, ecm_bytes name, ecm_bytes type) {
  ecm_model *m = user;
  ecm_value value;
  EC_BACKEND_TRY(ecm_read_type(m, type, &value));
  if (value.is_state) EC_BACKEND_TRY(ecm_add_state(m, &value));
  return ecm_define(m, name, &value);
}

/* Adds the values of a list of names in metadata.json as inputs or outputs. */
static uint32_t add_list(ecm_model *m, const ecm_function *f, const char *member, bool outputs) {
  uint32_t list = 0, t = 0;
  EC_BACKEND_TRY(ecm_function_names(m, f, member, &list, &t));
  for (; t; t = ecm_json_next(&f->metadata, list, t)) {
    int64_t id;
    const ecm_bytes name = ecm_function_text(f, t);
    const uint32_t number = ect_names_find(&m->names, name);
    if (number == UINT32_MAX)
      return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                             "metadata.json: '%.*s' of %s is not a value of the ML program",
                             ecm_clip(name, 80), (const char *)name.data, member);
    EC_BACKEND_TRY(ecm_tensor(m, &m->values[number], &id));
    if (outputs) ect_add_output(&m->program, id);
    else ect_add_input(&m->program, id, false);
  }
  return EC_BACKEND_OK;
}

static uint32_t translate_function(ecm_model *m, const ecm_function *f) {
  EC_BACKEND_TRY(ecm_function_inputs(m, f, define_input, m));
  EC_BACKEND_TRY(add_list(m, f, "inputNames", false));
  EC_BACKEND_TRY(ecm_translate(m, f->block));
  return add_list(m, f, "outputNames", true);
}

static uint32_t translate(void *graph) {
  ecm_function f;
  uint32_t status = ecm_function_open(graph, &f);
  if (status == EC_BACKEND_OK) status = translate_function(graph, &f);
  ecm_function_close(&f);
  return status;
}

static const ect_format format = {ECT_FORMAT(ecm_model), .open = ecm_model_open,
                                  .translate = translate, .describe = ecm_describe,
                                  .close = ecm_model_close};

const ec_backend ecm_backend = ECT_BACKEND("CoreMLBackend", &format);
