/* Weights of a linear layer that a product packs, not the load.
 *
 * Packing is most of the time of loading a large program, and the first tokens need two products
 * of each layer. A product reads the weights once in any case, and packing a tile into memory that
 * stays in the second-level cache takes less time than the weights take to arrive. So the first
 * products pack tile by tile, multiply, and forget; nothing is zeroed or written to memory. The
 * third one packs each tile into its place. Where packing is slower than that, the first one does.
 * Microkernels, tiles and order of additions are those of packed weights: the bits are the same. */
#ifndef ECX_DEFERRED_H
#define ECX_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  ECX_UNPACKED_PRODUCTS = 2,
  ECX_LEAST_DEFERRED = 1 << 20 /* bytes of a filter: small networks are ready after loading */
};

struct ecx_deferred {
  /* Packs a tile of at most nr output channels. */
  void (*pack)(const struct ecx_deferred* deferred, size_t first, size_t channels, char* to);
  const char *filter, *scales; /* of groups, or NULL */
  char* packed;
  size_t row_bits, scale_bytes; /* of a channel */
  size_t tile_bytes, nr, channels;
  uint32_t unpacked_products;
  uint32_t products;       /* so far; these three are atomic */
  bool is_taken, is_packed; /* a product packs, or has packed */
};

#endif
