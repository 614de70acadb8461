/* The table of operators. */
#include "operators.h"

#include "matrix.h"
#include "move.h"
#include "pointwise.h"
#include "pool.h"
#include "softmax.h"
#include "window.h"

#define CM_OPERATOR(name, schema)                                                                  \
  static uint32_t run_##name(const ec_operator *self, const ec_host *host, ec_host_call *call,     \
                             ec_backend_arg *args, size_t count) {                                 \
    (void)self;                                                                                    \
    (void)count;                                                                                   \
    const cm_call c = {host, call, args};                                                          \
    return cm_##name(&c);                                                                          \
  }
#include "operators.def"
#undef CM_OPERATOR

#define CM_OPERATOR(name, text) {.schema = text, .run = run_##name},
static const ec_operator rows[] = {
#include "operators.def"
};
#undef CM_OPERATOR

const ec_operators cortex_m_operators = {
    .abi_version = EC_OPERATOR_ABI_VERSION,
    .struct_size = sizeof(ec_operators),
    .row_size = sizeof(ec_operator),
    .origin = "Cortex-M",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
};
