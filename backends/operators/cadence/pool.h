/* Pooling. */
#ifndef CADENCE_POOL_H
#define CADENCE_POOL_H

#include "call.h"

uint32_t cad_max_pool_first(const cad_call *c); /* channels first */
uint32_t cad_max_pool_last(const cad_call *c);  /* channels last */
uint32_t cad_avg_pool(const cad_call *c);

#endif
