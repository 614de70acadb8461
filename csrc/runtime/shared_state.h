/* State that the methods of a program share. */
#ifndef EC_RUNTIME_SHARED_STATE_H
#define EC_RUNTIME_SHARED_STATE_H

#include "runtime/native.h"

/* Fills `m->shared_blocks` with the program's blocks for memory of a method that is state alone. A
 * block is made, with its first contents, when the first method asks for it. */
ec_status ec_share_state(ec_method *m, const ec_plan *plan, ec_error *err);

#endif
