/* The operators of this folder, exported by module.c. */
#ifndef DEMO_OPS_H
#define DEMO_OPS_H

#include "executorch_c/operator.h"

extern const ec_operators demo_operators;

#endif
