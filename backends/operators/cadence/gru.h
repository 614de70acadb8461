/* One step of a GRU. */
#ifndef CADENCE_GRU_H
#define CADENCE_GRU_H

#include "call.h"

uint32_t cad_w8a32_gru(const cad_call *c);

#endif
