/* Singular values and vectors. */
#ifndef CADENCE_SVD_H
#define CADENCE_SVD_H

#include "call.h"

uint32_t cad_linalg_svd(const cad_call *c);

#endif
