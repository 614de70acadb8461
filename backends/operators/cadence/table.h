/* Rows of a quantised table, and masks as bits. */
#ifndef CADENCE_TABLE_H
#define CADENCE_TABLE_H

#include "call.h"

uint32_t cad_quantized_embedding_byte(const cad_call *c);
uint32_t cad_bitwise_mask(const cad_call *c);

#endif
