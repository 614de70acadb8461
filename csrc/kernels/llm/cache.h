/* Writing positions of a cache: tensors with (batch, position, ...) dimensions. */
#ifndef EC_KERNELS_LLM_CACHE_H
#define EC_KERNELS_LLM_CACHE_H

#include "kernels/call.h"

/* Checks that argument `value` (batch, n, heads, dim) fits argument `cache` (batch, size, heads,
 * dim) in everything but the number of positions, with elements of the same size. */
ec_status ec_cache_check(ec_call *c, size_t value, size_t cache);

/* Checks that `n` positions from the number in argument `start` lie in argument `cache`, and that
 * the first is a position even if n is 0. */
ec_status ec_cache_check_start(ec_call *c, size_t start, size_t cache, int64_t n);

/* Copies the bytes of `value` to the positions from `start`. */
void ec_cache_write(const ec_call *c, const ec_tensor *value, ec_tensor *cache, int64_t start);

#endif
