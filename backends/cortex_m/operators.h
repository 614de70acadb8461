/* The operators of this folder, exported by module.c. */
#ifndef CORTEX_M_OPERATORS_H
#define CORTEX_M_OPERATORS_H

#include "executorch_c/operator.h"

extern const ec_operators cortex_m_operators;

#endif
