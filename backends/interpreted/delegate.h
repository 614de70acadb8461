/* A backend for a format of payloads: a payload is translated into a program, which runs. */
#ifndef ECT_DELEGATE_H
#define ECT_DELEGATE_H

#include "executorch_c/backend.h"
#include "describe.h"
#include "translate.h"

/* A format. `graph` is a payload under translation: a struct with a member `program`, zeroed before
 * `open`, which sets what it needs. `close` is called after failures, too. */
typedef struct ect_format {
  size_t graph_size, program_at;
  uint32_t (*open)(void *graph, const ec_backend_call *c, const ec_backend_init *what);
  uint32_t (*translate)(void *graph); /* adds calls, inputs and outputs to the program */
  uint32_t (*describe)(void *graph, const ec_backend_visitor *visitor);
  void (*close)(void *graph); /* except for the program */
  const ect_rules *rules; /* of an ect_graph; or NULL */
  const char *lost_outputs; /* why a program may pass fewer outputs than the payload has; or NULL */
} ect_format;

/* The initialiser of an ect_format, without the functions. */
#define ECT_FORMAT(type) .graph_size = sizeof(type), .program_at = offsetof(type, program)
/* The initialiser of one whose reader fills an ect_graph. */
#define ECT_GRAPH_FORMAT(reader, its_rules)                                                        \
  ECT_FORMAT(ect_graph), .open = (reader), .translate = ect_graph_translate,                       \
  .describe = ect_graph_describe, .close = ect_graph_close, .rules = (its_rules)

uint32_t ect_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                  const ec_backend_init *what, void **handle);
uint32_t ect_execute(const ec_backend *self, const ec_host *host, ec_host_call *call, void *handle,
                     ec_backend_arg *args, size_t count);
uint32_t ect_describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                      const ec_backend_init *what, const ec_backend_visitor *visitor);
void ect_reset(const ec_backend *self, const ec_host *host, void *handle);
void ect_destroy(const ec_backend *self, const ec_host *host, void *handle);

/* The initialiser of an ec_backend. */
#define ECT_BACKEND(name, format)                                                                  \
  {.abi_version = EC_BACKEND_ABI_VERSION,                                                          \
   .struct_size = sizeof(ec_backend),                                                              \
   .id = (name),                                                                                   \
   .version = "interpreted on the CPU",                                                            \
   .user = (void *)(uintptr_t)(format),                                                            \
   .init = ect_init,                                                                               \
   .execute = ect_execute,                                                                         \
   .destroy = ect_destroy,                                                                         \
   .describe = ect_describe,                                                                       \
   .reset = ect_reset}

#endif
