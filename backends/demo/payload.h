/* The payload of BackendWithCompilerDemo: text that names operators in order of execution.
 *
 *   1version:0#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_handle>1#
 *
 * The first number counts the operators; "version:0" is absent in files of old exporters. */
#ifndef DEMO_PAYLOAD_H
#define DEMO_PAYLOAD_H

#include "executorch_c/backend.h"

typedef enum demo_kind { DEMO_ADD, DEMO_MM, DEMO_SIN } demo_kind;

typedef struct demo_op {
  demo_kind kind;
  int64_t numel;        /* elements of its result */
  int64_t debug_handle; /* the export side's number of the operator, for messages */
} demo_op;

typedef struct demo_program {
  size_t inputs; /* arguments before the output */
  int64_t sine_terms; /* of the Taylor series */
  int64_t calls;      /* number of successful calls */
  size_t count;
  demo_op ops[];
} demo_program;

/* "aten.mm.default", ... */
const char *demo_kind_name(demo_kind kind);

/* Parses and checks a payload; free the program with host->free. Fails with Incompatible (another
 * version), NotSupported (names the unsupported operator, dtype or order) or InvalidProgram
 * (another format). */
uint32_t demo_payload_parse(const ec_host *host, ec_host_call *call, const ec_backend_init *init,
                            demo_program **out);

#endif
