/* The table of operators. */
#include "operators.h"

#include "../libraries.h"

#define EVO_OP(function, schema) EC_OPERATOR_RUN(run_##function, function, evo_call)
#include "operators.def"
#undef EVO_OP

static const ec_operator rows[] = {
#define EVO_OP(function, schema_text) {.schema = schema_text, .run = run_##function},
#include "operators.def"
#undef EVO_OP
};

const ec_operators evo_operators = EC_OPERATORS(rows, "executorch_c vulkan_ops");
