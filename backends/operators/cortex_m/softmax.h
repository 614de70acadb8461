/* The softmax of int8. */
#ifndef CORTEX_M_SOFTMAX_H
#define CORTEX_M_SOFTMAX_H

#include "arguments.h"

uint32_t cm_softmax(const cm_call *c);

#endif
