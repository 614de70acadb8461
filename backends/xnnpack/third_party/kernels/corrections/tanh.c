/* tanh of floats within one unit in the last place of PyTorch's, for each instruction set. */
#include <stdint.h>

#include "executorch_c/corrections/hook.h"
#include "xnnpack/hardware-config.h"

#if XNN_ARCH_X86_64
#include <immintrin.h>

#define ECX_SET(name) ecx_avx512_##name
#define ECX_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ECX_LANES 16
#include "executorch_c/corrections/tanh.tmpl.h"

#define ECX_SET(name) ecx_avx2_##name
#define ECX_TARGET __attribute__((target("avx2,fma")))
#define ECX_LANES 8
#include "executorch_c/corrections/tanh.tmpl.h"
#endif

#if XNN_ARCH_X86_64 || XNN_ARCH_ARM64
#define ECX_SET(name) ecx_plain_##name
#define ECX_TARGET
#define ECX_LANES 4
#include "executorch_c/corrections/tanh.tmpl.h"

void ecx_set_f32_tanh(struct xnn_unary_elementwise_config* config) {
  config->ukernel = (xnn_vunary_ukernel_fn) ecx_plain_tanh;
#if XNN_ARCH_X86_64
  const struct xnn_hardware_config* hardware = xnn_init_hardware_config();
  if (hardware->use_x86_avx512skx)
    config->ukernel = (xnn_vunary_ukernel_fn) ecx_avx512_tanh;
  else if (hardware->use_x86_avx2 && hardware->use_x86_fma3)
    config->ukernel = (xnn_vunary_ukernel_fn) ecx_avx2_tanh;
#endif
}
#endif
