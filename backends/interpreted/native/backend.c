/* NativeBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../delegate.h"
#include "call.h"
#include "describe.h"
#include "fields.h"
#include "graph.h"
#include "../backends.h"

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

/* Adds the outputs of the user to `outputs`; others are new values of buffers. */
static uint32_t add_outputs(ecn_graph *g, int64_t *outputs, size_t *count) {
  const ecn_payload *p = &g->payload;
  for (uint32_t i = 0; i < p->outputs.count; i++) {
    const ec_fb_table spec = i < p->specs.count ? ec_fb_vec_table(p->specs, i) : NULL;
    const uint8_t kind = spec ? ec_fb_u8(spec, ECN_OutputSpec_kind) : ECN_USER_OUTPUT;
    int64_t value;
    EC_BACKEND_TRY(ecn_find_value(g, ecn_text_at(p->outputs, i), &value));
    if (!ect_tensor_at(&g->program, value))
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "output %u is not a tensor",
                             (unsigned)i);
    if (kind == ECN_USER_OUTPUT) outputs[(*count)++] = value;
    else if (kind == ECN_BUFFER_MUTATION)
      EC_BACKEND_TRY(keep_state(g, ecn_text(spec, ECN_OutputSpec_target), value));
    else
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "output %u mutates an input",
                             (unsigned)i);
  }
  return EC_BACKEND_OK;
}

static uint32_t translate(ecn_graph *g, int64_t *inputs, int64_t *outputs, size_t *count) {
  EC_BACKEND_TRY(ecn_add_constants(g));
  ect_set_place(&g->program, "inputs");
  EC_BACKEND_TRY(ecn_add_inputs(g, inputs));
  for (uint32_t i = 0; i < g->payload.nodes.count; i++) EC_BACKEND_TRY(ecn_translate_node(g, i));
  ect_set_place(&g->program, "outputs");
  EC_BACKEND_TRY(add_outputs(g, outputs, count));
  ect_copy_shared(&g->program, inputs, g->payload.inputs.count, outputs, *count);
  return EC_BACKEND_OK;
}

static uint32_t open_graph(ecn_graph *g, ect_delegate *out) {
  const ec_host *host = g->c.host;
  const size_t in = g->payload.inputs.count;
  size_t count = 0;
  int64_t *inputs = host->alloc((in + 1) * sizeof *inputs);
  int64_t *outputs = host->alloc((g->payload.outputs.count + 1u) * sizeof *outputs);
  uint32_t status = EC_BACKEND_OK;
  if (!inputs || !outputs)
    status = EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu inputs", in);
  if (status == EC_BACKEND_OK) status = translate(g, inputs, outputs, &count);
  if (status == EC_BACKEND_OK)
    status = ect_delegate_open(g->c.call, &g->program, inputs, NULL, in, outputs, count, out);
  host->free(inputs);
  host->free(outputs);
  return status;
}

static uint32_t open_payload(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                             ect_delegate *out) {
  const ec_backend_call c = {host, call};
  ecn_graph graph;
  EC_BACKEND_TRY(ecn_graph_open(&c, what->payload, what->payload_size, &graph));
  const uint32_t status = open_graph(&graph, out);
  ecn_graph_close(&graph);
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
  return ecn_describe(&c, what, visitor);
}

const ec_backend ecn_backend = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_backend),
    .id = "NativeBackend",
    .version = "interpreted on the CPU",
    .init = init,
    .execute = ect_delegate_execute,
    .destroy = ect_delegate_destroy,
    .describe = describe,
    .reset = ect_delegate_reset,
};
