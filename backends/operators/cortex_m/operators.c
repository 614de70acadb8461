/* The table of operators. */
#include "../libraries.h"

#include "matrix.h"
#include "move.h"
#include "pointwise.h"
#include "pool.h"
#include "softmax.h"
#include "window.h"

#define CM_OPERATOR(name, schema) EC_OPERATOR_RUN(run_##name, cm_##name, cm_call)
#include "operators.def"
#undef CM_OPERATOR

#define CM_OPERATOR(name, text) {.schema = text, .run = run_##name},
static const ec_operator rows[] = {
#include "operators.def"
};
#undef CM_OPERATOR

const ec_operators cortex_m_operators = EC_OPERATORS(rows, "Cortex-M");
