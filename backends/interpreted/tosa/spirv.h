/* A graph in SPIR-V, with the extensions SPV_ARM_graph and TOSA.001000.1. */
#ifndef ETS_SPIRV_H
#define ETS_SPIRV_H

#include "dtypes.h"

/* Finds the bytes of the graph's constant `index`. */
typedef uint32_t ets_constant_fn(void *user, uint32_t index, const uint8_t **data, size_t *size);

/* Appends the only graph of a module as a block. `words` has any alignment. */
uint32_t ets_read_spirv(ect_graph *g, const uint8_t *words, size_t count,
                        ets_constant_fn *constant, void *user);

#endif
