/* Programs inside payloads: the functions program_* of ec_host. */
#ifndef EC_RUNTIME_NESTED_H
#define EC_RUNTIME_NESTED_H

#include "runtime/host_call.h"

uint32_t ec_nested_open(ec_host_call *call, const void *data, size_t size, const char *method,
                        ec_host_program **out);
uint32_t ec_nested_run(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                       size_t count);
/* program_run_nodes of ec_host. */
uint32_t ec_nested_run_nodes(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                             size_t count, const ec_backend_node *nodes, size_t node_count);
/* program_reset of ec_host. */
void ec_nested_reset(ec_host_program *nested);
void ec_nested_close(ec_host_program *nested); /* NULL is allowed */

#endif
