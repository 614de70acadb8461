/* The program behind the interface. */
#ifndef EC_API_PROGRAM_H
#define EC_API_PROGRAM_H

#include "executorch_c/executorch_c.h"
#include "runtime/program.h"

/* An ecr_program is an ec_program. */
const ec_program *ecr_program_inside(const ecr_program *program);

#endif
