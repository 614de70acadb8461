/* The last step before a program is written. */
#ifndef ECT_UNREAD_H
#define ECT_UNREAD_H

#include "values.h"

/* Copies outputs that are other values, too, and removes helpers that copy to tensors which no
 * call, output or state needs: an operator's second result, of another dtype in the payload, would
 * otherwise count as read. */
uint32_t ect_finish(ec_host_call *call, ect_program *p);

#endif
