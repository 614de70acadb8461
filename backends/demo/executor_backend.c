/* ExecutorBackend: the payload is a complete .pte with a method "forward" (or the one named by the
 * option "method") that takes the delegate's inputs. It is the smallest possible backend: the
 * runtime itself does the work. */
#include <string.h>

#include "demo.h"

static uint32_t executor_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                              const ec_backend_init *what, void **handle) {
  (void)self;
  ec_host_program *program = NULL;
  const char *method = "forward";
  for (size_t i = 0; i < what->option_count; i++) {
    const ec_backend_option *option = &what->options[i];
    if (strcmp(option->key, "method") != 0 || option->kind != EC_BACKEND_STRING)
      return host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                        "unknown option '%s' of kind %u, expected 'method', a string", option->key,
                        option->kind);
    method = option->as.string;
  }
  if (!what->payload_size)
    return host->fail(call, EC_BACKEND_INVALID_PROGRAM, "the payload is empty, expected a .pte");
  uint32_t status =
      host->program_open(call, what->payload, what->payload_size, method, &program);
  *handle = program;
  return status;
}

static uint32_t executor_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                 void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  return host->program_run(call, handle, args, count);
}

static void executor_reset(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  host->program_reset(handle);
}

static void executor_destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  host->program_close(handle);
}

const ec_backend demo_executor_backend = {
  .abi_version = EC_BACKEND_ABI_VERSION,
  .struct_size = sizeof(ec_backend),
  .id = "ExecutorBackend",
  .version = "0",
  .init = executor_init,
  .execute = executor_execute,
  .destroy = executor_destroy,
  .reset = executor_reset,
};
