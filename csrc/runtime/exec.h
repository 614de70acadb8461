/* The executor of a loaded method. */
#ifndef EC_RUNTIME_EXEC_H
#define EC_RUNTIME_EXEC_H

#include "runtime/method_types.h"

/* Initialises the budget of a call from the method's options. Defaults: half the memory of the
 * machine, and EC_MAX_INSTRUCTIONS instructions of any size. The thread must enter it before inputs
 * are bound, and leave it after outputs are read. */
void ec_method_budget(const ec_method *method, const ec_interrupt *interrupt, ec_budget *out);

/* Runs the method on the thread's budget, or on a new one if the thread has none. All inputs must
 * be bound. Does not need the GIL. Errors name method, instruction and operator. */
ec_status ec_method_execute(ec_method *method, ec_error *err);

/* Resets every tensor that a call may have redirected to its placement, and slots to their initial
 * values. */
void ec_restore_placements(ec_method *method);

#endif
