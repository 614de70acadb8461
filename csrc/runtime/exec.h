/* The executor of a loaded method. */
#ifndef EC_RUNTIME_EXEC_H
#define EC_RUNTIME_EXEC_H

#include "runtime/method_types.h"

/* Fills in the budget of a call: from the method's options; by default, half the memory of
 * the machine, and EC_MAX_INSTRUCTIONS instructions of any size. It is to be the thread's before
 * inputs are bound, and until outputs are read. */
void ec_method_budget(const ec_method *method, const ec_interrupt *interrupt, ec_budget *out);

/* Runs the method on the thread's budget (one of its own where it has none): all inputs must be
 * bound. Does not need the GIL. Errors name method, instruction and operator. */
ec_status ec_method_execute(ec_method *method, ec_error *err);

/* Puts every tensor that a call may have pointed elsewhere back to its placement, and slots to
 * their first values. */
void ec_restore_placements(ec_method *method);

#endif
