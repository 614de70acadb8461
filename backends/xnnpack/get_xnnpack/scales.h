/* Returns whether all bfloat16 scales are positive and normal: bits 0x0080 to 0x7f7f. Put into
 * XNNPACK's tensor.c and fully-connected-nc.c, whose loops call isnormal for each scale. */
static bool ecx_are_scales(const uint16_t* scales, size_t count) {
  uint16_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong |= (uint16_t) (scales[i] - 0x0080) >= 0x7f00;
  return wrong == 0;
}
