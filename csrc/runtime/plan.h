/* Functions that write the plan of a method. */
#ifndef EC_RUNTIME_PLAN_H
#define EC_RUNTIME_PLAN_H

#include "runtime/native.h"

/* Makes a step of each loaded instruction. */
ec_status ec_plan_init(ec_method *m, ec_error *err);

/* Puts a copy of a step on top of what executes at its first instruction, which becomes its
 * fallback if `declines`. */
ec_status ec_plan_add(ec_method *m, ec_step step, bool declines, ec_error *err);

/* Adds a step that computes all of its instructions, apart from constants: no other pass is to
 * compute them. */
ec_status ec_plan_replace(ec_method *m, ec_step step, bool declines, ec_error *err);

/* Names the pass that computes an instruction: a folded call, or one of several in a step. */
void ec_plan_assign(ec_method *m, size_t instr, ec_pass_id pass);

/* True if the pass computes the instruction. */
bool ec_plan_is(const ec_method *m, size_t instr, ec_pass_id pass);

#endif
