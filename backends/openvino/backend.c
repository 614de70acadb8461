/* OpenvinoBackend: the interface of backend.h. */
#include "executorch_c/backend.h"
#include "describe.h"
#include "engine.h"
#include "execute.h"
#include "library.h"
#include "openvino_backend.h"
#include "options.h"
#include "shown.h"

static const char *openvino_why_unavailable(const ec_backend *self) {
  (void)self;
  return eco_library_path()[0] ? NULL
                               : "the package openvino is missing: "
                                 "pip install 'executorch_c[openvino]'";
}

static bool openvino_is_available(const ec_backend *self) {
  return !openvino_why_unavailable(self);
}

static void close_delegate(const ec_host *host, eco_delegate *d) {
  eco_shown_close(host, d);
  eco_engine_close(d);
  host->free(d);
}

static uint32_t openvino_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                              const ec_backend_init *what, void **handle) {
  (void)self;
  const ec_backend_call c = {host, call};
  eco_delegate *d = host->alloc(sizeof *d);
  if (!d) return EC_BACKEND_FAIL(&c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a delegate");
  const uint32_t status = eco_engine_open(&c, what, d);
  if (status)
    close_delegate(host, d);
  else
    *handle = d;
  return status;
}

static uint32_t openvino_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                 void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  const ec_backend_call c = {host, call};
  return eco_execute(&c, handle, args, count);
}

static void openvino_destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  close_delegate(host, handle);
}

static uint32_t set_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           const ec_backend_option *option) {
  (void)self;
  const ec_backend_call c = {host, call};
  return eco_options_set(&c, option);
}

static uint32_t get_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           ec_backend_option *option) {
  (void)self;
  (void)host;
  (void)call;
  return eco_options_get(option);
}

static void openvino_report(const ec_backend *self, void *handle,
                            void (*add)(void *user, const char *name, int64_t value), void *user) {
  (void)self;
  const eco_delegate *d = handle;
  add(user, "blob_bytes", d->blob_bytes);
  add(user, "calls", d->calls);
}

static uint32_t openvino_describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                  const ec_backend_init *what, const ec_backend_visitor *visitor) {
  (void)self;
  const ec_backend_call c = {host, call};
  return eco_describe(&c, what, visitor);
}

const ec_backend eco_backend = {
  .abi_version = EC_BACKEND_ABI_VERSION,
  .struct_size = sizeof(ec_backend),
  .id = "OpenvinoBackend",
  .version = "OpenVINO 2025",
  .is_available = openvino_is_available,
  .init = openvino_init,
  .execute = openvino_execute,
  .destroy = openvino_destroy,
  .set_option = set_option,
  .get_option = get_option,
  .option_keys = eco_option_keys,
  .report = openvino_report,
  .describe = openvino_describe,
  .why_unavailable = openvino_why_unavailable,
};
