/* Loops of XNNPACK's packing.cc. */
#ifndef ECX_PACKING_H
#define ECX_PACKING_H

#include <cstddef>
#include <cstdint>
#include <cstring>

/* Packing of float weights one by one.
 *
 * ecx_interleave writes rows of weights (one per output channel, `stride` elements apart) as the
 * columns of a panel of `nr` columns, and returns kc; 0 if the caller must pack them. Eight rows at
 * a time, so that reads and writes stay in the first-level cache. */
template <size_t Rows>
void ecx_interleave_rows(const float* k, size_t stride, size_t kc, size_t nr, float* packed) {
  for (size_t c = 0; c < kc; c++) {
    for (size_t row = 0; row < Rows; row++) {
      packed[c * nr + row] = k[row * stride + c];
    }
  }
}

static size_t ecx_interleave(size_t skr, const float* k, size_t stride, size_t rows, size_t kc,
                             size_t nr, float** packed) {
  if (skr != 1) return 0;
  size_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    ecx_interleave_rows<8>(k + row * stride, stride, kc, nr, *packed + row);
  }
  for (; row < rows; row++) {
    ecx_interleave_rows<1>(k + row * stride, stride, kc, nr, *packed + row);
  }
  *packed += kc * nr;
  return kc;
}

/* Packing of 4-bit weights, eight at a time.
 *
 * ecx_spread returns eight nibbles, the lower one of a byte first, as bytes. ecx_pack_nibbles packs
 * the weights [at, at + kr) and [at + kr, at + 2 kr) of a row that starts at nibble `row`, adds
 * them to *sum, and returns kr; 0 if the caller must pack them one by one. */
static uint64_t ecx_spread(const uint8_t* from) {
  uint32_t nibbles;
  memcpy(&nibbles, from, sizeof nibbles);
  uint64_t x = nibbles;
  x = (x | x << 16) & UINT64_C(0x0000FFFF0000FFFF);
  x = (x | x << 8) & UINT64_C(0x00FF00FF00FF00FF);
  return (x | x << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
}

static size_t ecx_pack_nibbles(const uint8_t* k, size_t row, size_t at, size_t kc, size_t kr,
                               void* packed, int32_t* sum) {
  const bool is_whole = kr == 8 && (row + at) % 2 == 0 && at + 2 * kr <= kc;
  if (!is_whole || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) return 0;
  const uint8_t* from = k + (row + at) / 2;
  const uint64_t low = ecx_spread(from), high = ecx_spread(from + kr / 2);
  const uint64_t both = (low | high << 4) ^ UINT64_C(0x8888888888888888);
  memcpy(packed, &both, sizeof both);
  *sum += (int32_t) ((low + high) * UINT64_C(0x0101010101010101) >> 56) - 16 * (int32_t) kr;
  return kr;
}

#endif
