/* Normalisation and softmax. */
#ifndef CADENCE_NORM_H
#define CADENCE_NORM_H

#include "call.h"

uint32_t cad_quantized_layer_norm(const cad_call *c);
uint32_t cad_rms_norm(const cad_call *c);
uint32_t cad_softmax(const cad_call *c);
uint32_t cad_quantized_softmax(const cad_call *c);

#endif
