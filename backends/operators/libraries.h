/* The operator libraries of this folder, exported by module.c. */
#ifndef EC_OPERATOR_LIBRARIES_H
#define EC_OPERATOR_LIBRARIES_H

#include "executorch_c/operator.h"

extern const ec_operators cadence_operators;
extern const ec_operators cortex_m_operators;
extern const ec_operators eto_operators; /* tosa */
extern const ec_operators emo_operators; /* mlx */
extern const ec_operators evo_operators; /* vulkan */

#endif
