/* The payload of VgfBackend: a VGF container with a graph in SPIR-V. */
#ifndef ETS_VGF_H
#define ETS_VGF_H

#include "dtypes.h"

/* Verifies the payload and appends its block to an empty graph. */
uint32_t ets_read_vgf(ect_graph *g, const ec_backend_init *what);

#endif
