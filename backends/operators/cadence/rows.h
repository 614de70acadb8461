/* Patches as the rows of a matrix: a convolution becomes a product. */
#ifndef CADENCE_ROWS_H
#define CADENCE_ROWS_H

#include "call.h"

uint32_t cad_im2row(const cad_call *c);
uint32_t cad_transposed_im2row(const cad_call *c);

#endif
