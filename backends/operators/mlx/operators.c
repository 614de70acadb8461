/* The table of operators. */
#include "operators.h"

#include "../libraries.h"

#define EMO_OP(function, schema) EC_OPERATOR_RUN(run_##function, function, emo_call)
#include "operators.def"
#undef EMO_OP

static const ec_operator rows[] = {
#define EMO_OP(function, schema_text) {.schema = schema_text, .run = run_##function},
#include "operators.def"
#undef EMO_OP
};

const ec_operators emo_operators = EC_OPERATORS(rows, "executorch_c mlx_ops");
