/* Operators that move elements: transpose and pad. */
#ifndef CORTEX_M_MOVE_H
#define CORTEX_M_MOVE_H

#include "arguments.h"

uint32_t cm_transpose(const cm_call *c);
uint32_t cm_pad(const cm_call *c);

#endif
