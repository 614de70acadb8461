/* Results that nothing reads. */
#ifndef ECT_UNREAD_H
#define ECT_UNREAD_H

#include "values.h"

/* Removes helpers that copy to tensors which no call, output or state needs: an operator's second
 * result, of another dtype in the payload, would otherwise count as read. Returns false without
 * memory. */
bool ect_drop_unread(ect_program *p);

#endif
