/* Packing of float weights one by one: put into XNNPACK's packing.cc.
 *
 * ecx_interleave writes rows of weights (one per output channel, `stride` elements apart) as the
 * columns of a panel of `nr` columns and returns the panel's end. Eight rows at a time, so that
 * reads and writes stay in the first-level cache. */
template <size_t Rows, typename Src, typename Dst>
void ecx_interleave_rows(const Src* k, size_t stride, size_t kc, size_t nr, Dst* packed) {
  for (size_t c = 0; c < kc; c++) {
    for (size_t row = 0; row < Rows; row++) {
      packed[c * nr + row] = k[row * stride + c];
    }
  }
}

template <typename Src, typename Dst>
Dst* ecx_interleave(const Src* k, size_t stride, size_t rows, size_t kc, size_t nr, Dst* packed) {
  size_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    ecx_interleave_rows<8>(k + row * stride, stride, kc, nr, packed + row);
  }
  for (; row < rows; row++) {
    ecx_interleave_rows<1>(k + row * stride, stride, kc, nr, packed + row);
  }
  return packed + kc * nr;
}

