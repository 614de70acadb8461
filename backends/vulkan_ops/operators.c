/* The table of operators. */
#include "operators.h"

/* Calls the function of a row with its arguments. */
#define EVO_OP(function, schema)                                                                   \
  static uint32_t run_##function(const ec_operator *self, const ec_host *host, ec_host_call *call, \
                                 ec_backend_arg *args, size_t count) {                             \
    const evo_call c = {host, call, args};                                                         \
    (void)self;                                                                                    \
    (void)count;                                                                                   \
    return function(&c);                                                                           \
  }
#include "operators.def"
#undef EVO_OP

static const ec_operator rows[] = {
#define EVO_OP(function, schema_text) {.schema = schema_text, .run = run_##function},
#include "operators.def"
#undef EVO_OP
};

const ec_operators evo_operators = {
    .abi_version = EC_OPERATOR_ABI_VERSION,
    .struct_size = sizeof(ec_operators),
    .row_size = sizeof(ec_operator),
    .origin = "executorch_c vulkan_ops",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
};
