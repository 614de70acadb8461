/* NativeBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "call.h"
#include "describe.h"
#include "fields.h"
#include "graph.h"

/* Writes the new value of a buffer to its state. */
static uint32_t keep_state(ecn_graph *g, ect_text target, int64_t value) {
  const uint32_t buffer = ect_names_find(&g->buffers, target);
  const ect_tensor *t = buffer == UINT32_MAX ? NULL : ect_tensor_at(&g->program, buffer);
  if (!t || t->role != ECT_STATE)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "no buffer '%.80s', which an output mutates", (const char *)target.data);
  if ((int64_t)buffer != value) ect_add_copy(&g->program, value, buffer, NULL);
  return EC_BACKEND_OK;
}

/* Adds the outputs of the user; others are new values of buffers. */
static uint32_t add_outputs(ecn_graph *g) {
  const ecn_payload *p = &g->payload;
  for (uint32_t i = 0; i < p->outputs.count; i++) {
    const ec_fb_table spec = i < p->specs.count ? ec_fb_vec_table(p->specs, i) : NULL;
    const uint8_t kind = spec ? ec_fb_u8(spec, ECN_OutputSpec_kind) : ECN_USER_OUTPUT;
    int64_t value;
    EC_BACKEND_TRY(ecn_find_value(g, ecn_text_at(p->outputs, i), &value));
    if (!ect_tensor_at(&g->program, value))
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "output %u is not a tensor",
                             (unsigned)i);
    if (kind == ECN_USER_OUTPUT) ect_add_output(&g->program, value);
    else if (kind == ECN_BUFFER_MUTATION)
      EC_BACKEND_TRY(keep_state(g, ecn_text(spec, ECN_OutputSpec_target), value));
    else
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "output %u mutates an input",
                             (unsigned)i);
  }
  return EC_BACKEND_OK;
}

static uint32_t translate(void *graph) {
  ecn_graph *g = graph;
  EC_BACKEND_TRY(ecn_add_constants(g));
  ect_set_place(&g->program, "inputs");
  EC_BACKEND_TRY(ecn_add_inputs(g));
  for (uint32_t i = 0; i < g->payload.nodes.count; i++) EC_BACKEND_TRY(ecn_translate_node(g, i));
  ect_set_place(&g->program, "outputs");
  return add_outputs(g);
}

static const ect_format format = {ECT_FORMAT(ecn_graph), .open = ecn_graph_open,
                                  .translate = translate, .describe = ecn_describe,
                                  .close = ecn_graph_close};

const ec_backend ecn_backend = ECT_BACKEND("NativeBackend", &format);
