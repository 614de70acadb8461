/* Programs inside payloads: program_open, program_run and program_close of ec_host. */
#ifndef EC_RUNTIME_NESTED_H
#define EC_RUNTIME_NESTED_H

#include "runtime/host_call.h"

uint32_t ec_nested_open(ec_host_call *call, const void *data, size_t size, const char *method,
                        ec_host_program **out);
uint32_t ec_nested_run(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                       size_t count);
void ec_nested_close(ec_host_program *nested); /* NULL is allowed */

#endif
