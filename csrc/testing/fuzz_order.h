/* Separate from fuzz_agree.c, because the runtime's structs have another ec_random. */
#ifndef EC_TESTING_FUZZ_ORDER_H
#define EC_TESTING_FUZZ_ORDER_H

#include "runtime/method.h"

/* True if a call writes memory of its operands under another name: its results depend on the order
 * in which a loop goes, which differs between kernels. No planner assigns memory so. */
bool ec_fuzz_depends_on_order(const ec_method *method);

#endif
