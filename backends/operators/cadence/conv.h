/* Convolutions, transposed ones too, of floats and of quantised images. */
#ifndef CADENCE_CONV_H
#define CADENCE_CONV_H

#include "call.h"

uint32_t cad_quantized_conv_first(const cad_call *c); /* channels first */
uint32_t cad_quantized_conv_last(const cad_call *c);  /* channels last */
uint32_t cad_quantized_depthwise_first(const cad_call *c);
uint32_t cad_quantized_depthwise_last(const cad_call *c);
uint32_t cad_conv(const cad_call *c);
uint32_t cad_transposed_conv(const cad_call *c);
uint32_t cad_quantized_transposed_conv(const cad_call *c);
uint32_t cad_w8a32_conv(const cad_call *c);

#endif
