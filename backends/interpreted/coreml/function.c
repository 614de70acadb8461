/* A function: of model.mlmodel, with the order of its arguments in metadata.json. */
#include "function.h"

#include <string.h>

#include "fields.h"

enum { ML_PROGRAM = 502, FUNCTIONS = 2, OPSET = 2, BLOCKS = 3 };

static uint32_t find_message(ecm_model *m, ect_text *out) {
  ecm_field program;
  if (!ecm_wire_check(m->files.model))
    return EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "model.mlmodel is not a protobuf message");
  if (!ecm_wire_find(m->files.model, ML_PROGRAM, &program))
    return ect_refuse(m->g, EC_BACKEND_NOT_SUPPORTED, "model.mlmodel is not an ML program");
  EC_BACKEND_TRY(ecm_check_fields(m));
  if (!ecm_wire_entry(program.bytes, FUNCTIONS, m->function, out))
    return ect_refuse(m->g, EC_BACKEND_INVALID_PROGRAM, "the ML program has no function '%s'",
                      m->function);
  return EC_BACKEND_OK;
}

static uint32_t find_block(ecm_model *m, ecm_function *f) {
  ecm_field field, opset = {0};
  char key[32] = "";
  for (ect_text rest = f->message; ecm_wire_next(&rest, &field);)
    if (field.number == OPSET && field.wire == ECM_BYTES) opset = field;
  if (opset.bytes.size && opset.bytes.size < sizeof key)
    memcpy(key, opset.bytes.data, opset.bytes.size);
  if (!ecm_wire_entry(f->message, BLOCKS, key, &f->block))
    return EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "the function has no block for opset '%s'", key);
  return EC_BACKEND_OK;
}

uint32_t ecm_function_open(ecm_model *m, ecm_function *out) {
  *out = (ecm_function){{0}, {0}, {.c = m->g->c}, 0};
  EC_BACKEND_TRY(find_message(m, &out->message));
  EC_BACKEND_TRY(find_block(m, out));
  EC_BACKEND_TRY(
      ect_json_open(&m->g->c, m->files.metadata, false, "payload: metadata.json", &out->metadata));
  const uint32_t methods = ect_json_member(&out->metadata, 0, "methods");
  if (methods) out->lists = ect_json_member(&out->metadata, methods, m->function);
  if (methods && !out->lists)
    return EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "metadata.json has no method '%s', which the delegate calls",
                           m->function);
  return EC_BACKEND_OK;
}

void ecm_function_close(ecm_function *f) { ect_json_free(&f->metadata); }

uint32_t ecm_function_names(ecm_model *m, const ecm_function *f, const char *member,
                            uint32_t *list, uint32_t *first) {
  const ect_json *j = &f->metadata;
  *list = ect_json_member(j, f->lists, member);
  if (!*list || j->tokens[*list].type != ECT_JSON_ARRAY)
    return EC_BACKEND_FAIL(&m->g->c, EC_BACKEND_INVALID_PROGRAM, "metadata.json has no list '%s'",
                           member);
  *first = ect_json_first(j, *list);
  return EC_BACKEND_OK;
}

ect_text ecm_function_text(const ecm_function *f, uint32_t token) {
  const ect_token *text = &f->metadata.tokens[token];
  return (ect_text){f->metadata.bytes.data + text->begin, text->end - text->begin};
}
