/* Operators that move elements: copies, and parts of tensors. */
#ifndef CADENCE_MOVE_H
#define CADENCE_MOVE_H

#include "call.h"

uint32_t cad_copy(const cad_call *c);
uint32_t cad_contiguous(const cad_call *c);
uint32_t cad_cat(const cad_call *c);
uint32_t cad_select(const cad_call *c);
uint32_t cad_slice(const cad_call *c);
uint32_t cad_chunk(const cad_call *c);
uint32_t cad_tensor_split(const cad_call *c);

#endif
