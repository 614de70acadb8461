/* Reciprocal square roots of floats by the plain kernel, which divides by the root. The vector
 * kernels of x86 refine an estimate, and give NaN for 0, infinity and subnormal numbers, and wrong
 * results above 1e38. */
#include "executorch_c/corrections/hook.h"
#include "xnnpack/vunary.h"

#if XNN_ARCH_X86_64
void ecx_set_f32_rsqrt(struct xnn_unary_elementwise_config* config) {
  config->ukernel = (xnn_vunary_ukernel_fn) xnn_f32_vrsqrt_ukernel__scalar_rsqrt_u4;
}
#endif
