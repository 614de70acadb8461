/* A backend for a format of payloads: a payload is translated into a program, which runs. */
#ifndef ECT_DELEGATE_H
#define ECT_DELEGATE_H

#include "graph.h"

uint32_t ect_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                  const ec_backend_init *what, void **handle);
uint32_t ect_execute(const ec_backend *self, const ec_host *host, ec_host_call *call, void *handle,
                     ec_backend_arg *args, size_t count);
uint32_t ect_describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                      const ec_backend_init *what, const ec_backend_visitor *visitor);
void ect_reset(const ec_backend *self, const ec_host *host, void *handle);
void ect_destroy(const ec_backend *self, const ec_host *host, void *handle);

/* Members of an ec_backend. */
#define ECT_MEMBERS(name, format)                                                                  \
  .abi_version = EC_BACKEND_ABI_VERSION, .struct_size = sizeof(ec_backend), .id = (name),          \
  .version = "interpreted on the CPU", .user = (void *)(uintptr_t)(format), .init = ect_init,      \
  .execute = ect_execute, .destroy = ect_destroy, .describe = ect_describe, .reset = ect_reset
/* The initialiser of one without others. */
#define ECT_BACKEND(name, format) {ECT_MEMBERS(name, format)}

#endif
