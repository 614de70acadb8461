/* Rotary position embeddings. */
#ifndef CADENCE_ROPE_H
#define CADENCE_ROPE_H

#include "call.h"

uint32_t cad_rope(const cad_call *c);                  /* pairs side by side */
uint32_t cad_rope_halves(const cad_call *c);           /* the halves of a head */
uint32_t cad_quantized_rope_halves(const cad_call *c);

#endif
