/* The operators of this folder, exported by module.c. */
#ifndef CADENCE_OPERATORS_H
#define CADENCE_OPERATORS_H

#include "executorch_c/operator.h"

extern const ec_operators cadence_operators;

#endif
