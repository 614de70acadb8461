/* The table of operators. */
#include "operators.h"

#include "../libraries.h"

#define ETO_OP(function, schema) EC_OPERATOR_RUN(run_##function, function, eto_call)
#include "operators.def"
#undef ETO_OP

static const ec_operator table[] = {
#define ETO_OP(function, schema_text) {.schema = schema_text, .run = run_##function},
#include "operators.def"
#undef ETO_OP
};

const ec_operators eto_operators = EC_OPERATORS(table, "executorch_c tosa_ops");
