/* State shared by the methods of a program. */
#ifndef EC_RUNTIME_MEMORY_SHARED_STATE_H
#define EC_RUNTIME_MEMORY_SHARED_STATE_H

#include "runtime/native.h"

/* Sets `m->shared_blocks` to the program's blocks for memory that holds only state. The first
 * method that uses a block creates it with its initial contents. */
ec_status ec_share_state(ec_method *m, const ec_rows *rows, ec_error *err);

#endif
