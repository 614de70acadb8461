/* TOSABackend and VgfBackend: the graph of a payload as a program of the runtime, on the CPU. */
#include "describe.h"
#include "payload.h"
#include "../backends.h"
#include "translate.h"
#include "vgf.h"

typedef uint32_t read_fn(ets_graph *g, const void *data, size_t size);

static uint32_t open_graph(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                           read_fn *read, ect_delegate *out) {
  ets_graph graph;
  ets_graph_init(&graph, &(ec_backend_call){host, call});
  uint32_t status = read(&graph, what->payload, what->payload_size);
  if (status == EC_BACKEND_OK) status = ets_translate(&graph, out);
  ets_graph_free(&graph);
  return status;
}

static uint32_t open_tosa(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                          ect_delegate *out) {
  return open_graph(host, call, what, ets_read_payload, out);
}

static uint32_t open_vgf(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                         ect_delegate *out) {
  return open_graph(host, call, what, ets_read_vgf, out);
}

static uint32_t init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                     const ec_backend_init *what, void **handle) {
  return ect_delegate_init(host, call, what, self == &ets_vgf_backend ? open_vgf : open_tosa,
                           handle);
}

static uint32_t describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_init *what, const ec_backend_visitor *visitor) {
  ets_graph graph;
  read_fn *read = self == &ets_vgf_backend ? ets_read_vgf : ets_read_payload;
  ets_graph_init(&graph, &(ec_backend_call){host, call});
  const uint32_t status = read(&graph, what->payload, what->payload_size);
  if (status == EC_BACKEND_OK) ets_describe(&graph, visitor);
  ets_graph_free(&graph);
  return status;
}

#define BACKEND(name)                                                                              \
  {                                                                                                \
    .abi_version = EC_BACKEND_ABI_VERSION, .struct_size = sizeof(ec_backend), .id = (name),        \
    .version = "interpreted on the CPU", .init = init, .execute = ect_delegate_execute,            \
    .destroy = ect_delegate_destroy, .describe = describe, .reset = ect_delegate_reset             \
  }

const ec_backend ets_backend = BACKEND("TOSABackend");
const ec_backend ets_vgf_backend = BACKEND("VgfBackend");
