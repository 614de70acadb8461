/* Inside of structure.c: the instructions. */
#ifndef EC_RUNTIME_STRUCTURE_CODE_H
#define EC_RUNTIME_STRUCTURE_CODE_H

#include "format/pte.h"
#include "runtime/structure.h"

/* Operators and chains of a plan; values and delegates are there already. */
ec_status ec_structure_chains(ec_structure *structure, ec_fb_table plan, ec_error *err);

#endif
