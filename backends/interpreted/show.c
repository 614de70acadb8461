/* Tensors and nodes of a payload, as a visitor receives them. */
#include "show.h"

uint32_t ect_show_open(ect_show *s, const ec_backend_call *c, const ec_backend_visitor *visitor,
                       size_t count) {
  *s = (ect_show){.visitor = visitor, .host = c->host, .count = count};
  s->positions = c->host->alloc((count + 1) * sizeof *s->positions);
  if (!s->positions)
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu values", count);
  for (size_t i = 0; i < count; i++) s->positions[i] = UINT32_MAX;
  return EC_BACKEND_OK;
}

void ect_show_close(ect_show *s) { s->host->free(s->positions); }

void ect_show_argument(ect_show *s, uint32_t id, uint32_t position) {
  if (id < s->count && s->positions[id] == UINT32_MAX) s->positions[id] = position;
}

void ect_show_operand(ect_operands *o, uint32_t id) {
  if (o->count < ECT_MAX_SHOWN) o->ids[o->count++] = id;
}

void ect_show_tensor(ect_show *s, const ec_backend_inner_value *value) {
  ec_backend_inner_value shown = *value;
  if (s->positions) shown.argument = s->positions[value->id];
  shown.note = s->note.used ? s->note.at : NULL;
  s->visitor->value(s->visitor->user, &shown);
  s->note.used = 0;
}

void ect_show_node(ect_show *s, uint32_t debug_handle, const char *name) {
  const ec_backend_inner_node shown = {
      .debug_handle = debug_handle, .name = name, .note = s->note.used ? s->note.at : NULL,
      .inputs = s->inputs.ids, .outputs = s->outputs.ids, .input_count = s->inputs.count,
      .output_count = s->outputs.count};
  s->visitor->node(s->visitor->user, &shown);
  s->note.used = s->inputs.count = s->outputs.count = 0;
}

const char *ect_show_dtype(int32_t dtype) {
  switch (dtype) {
  case EC_DTYPE_FLOAT16: return "fp16";
  case EC_DTYPE_FLOAT32: return "fp32";
  case EC_DTYPE_FLOAT64: return "fp64";
  case EC_DTYPE_BFLOAT16: return "bf16";
  default: return ec_backend_dtype_size(dtype) ? ec_backend_dtype_name(dtype) : "unknown";
  }
}
