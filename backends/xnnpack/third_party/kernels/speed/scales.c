/* The check of scales of groups: bits 0x0080 to 0x7f7f. XNNPACK's loops call isnormal for each. */
#include "executorch_c/speed/ecx.h"

bool ecx_are_scales(const uint16_t* scales, size_t count) {
  uint16_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong |= (uint16_t) (scales[i] - 0x0080) >= 0x7f00;
  return wrong == 0;
}
