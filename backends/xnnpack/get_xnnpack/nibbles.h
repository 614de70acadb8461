/* Packing of 4-bit weights, put into XNNPACK's packing.cc: eight at a time.
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
