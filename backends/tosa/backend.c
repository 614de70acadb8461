/* TOSABackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "describe.h"
#include "payload.h"
#include "tosa_backend.h"
#include "translate.h"

static uint32_t open_payload(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                             ect_delegate *out) {
  ets_graph graph;
  ets_graph_init(&graph, &(ets_call){host, call});
  uint32_t status = ets_read_payload(&graph, what->payload, what->payload_size);
  if (status == EC_BACKEND_OK) status = ets_translate(&graph, out);
  ets_graph_free(&graph);
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
                      "%zu arguments, the graph has %zu inputs and %zu outputs", count,
                      d->input_count, d->output_count);
  return ect_delegate_run(d, call, args, count);
}

static uint32_t describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_init *what, const ec_backend_visitor *visitor) {
  (void)self;
  ets_graph graph;
  ets_graph_init(&graph, &(ets_call){host, call});
  const uint32_t status = ets_read_payload(&graph, what->payload, what->payload_size);
  if (status == EC_BACKEND_OK) ets_describe(&graph, visitor);
  ets_graph_free(&graph);
  return status;
}

const ec_backend ets_backend = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_backend),
    .id = "TOSABackend",
    .version = "interpreted on the CPU",
    .init = init,
    .execute = execute,
    .destroy = ect_delegate_destroy,
    .describe = describe,
};
