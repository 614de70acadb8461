/* Boxes as parameters of the device's image unit. */
#ifndef CADENCE_BOX_H
#define CADENCE_BOX_H

#include "call.h"

uint32_t cad_roi_align_box(const cad_call *c);

#endif
