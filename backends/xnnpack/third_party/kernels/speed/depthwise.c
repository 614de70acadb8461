/* Depthwise convolutions: kernels for each instruction set. ARM keeps XNNPACK's up to 25 taps. */
#include <stdint.h>
#include <string.h>

#include "executorch_c/corrections/hook.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/math.h"
#include "xnnpack/microfnptr.h"
#include "xnnpack/microparams-init.h"

enum { ECX_MAX_TAPS = 121 };
#define LARGE_TAPS(row) row(31) row(36) row(49) row(81) row(121)

#if XNN_ARCH_X86_64
#include <immintrin.h>

#define ECX_SET(name) ecx_avx512_##name
#define ECX_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ECX_LANES 16
#define ECX_FLOAT_TAPS(row) row(9) row(25) LARGE_TAPS(row)
#define ECX_BYTE_TAPS(row) row(9) row(25) LARGE_TAPS(row)
#include "executorch_c/speed/depthwise.tmpl.h"

#define ECX_SET(name) ecx_avx2_##name
#define ECX_TARGET __attribute__((target("avx2,fma")))
#define ECX_LANES 8
#define ECX_FLOAT_TAPS(row) row(9) row(25) LARGE_TAPS(row)
#define ECX_BYTE_TAPS(row) row(25) LARGE_TAPS(row)
#include "executorch_c/speed/depthwise.tmpl.h"

#define ECX_SET(name) ecx_vnni64_##name
#define ECX_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define ECX_CHANNELS 64
#define ECX_VECTOR __m512i
#define ECX_FLOATS __m512
#define ECX_MASK __mmask64
#define ECX_OP(name) _mm512_##name
#define ECX_BYTE_TAPS(row) row(9) row(25) LARGE_TAPS(row)
#include "executorch_c/speed/depthwise_vnni.tmpl.h"

#define ECX_SET(name) ecx_vnni32_##name
#define ECX_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define ECX_CHANNELS 32
#define ECX_VECTOR __m256i
#define ECX_FLOATS __m256
#define ECX_MASK __mmask32
#define ECX_OP(name) _mm256_##name
#define ECX_BYTE_TAPS(row) row(9) row(25) LARGE_TAPS(row)
#include "executorch_c/speed/depthwise_vnni.tmpl.h"

/* The configurations 2 and 3 of floats are those of 9 and 25 taps, 1 and 2 of bytes; larger ones
 * follow. */
void ecx_set_f32_dwconv(struct xnn_dwconv_config* configs) {
  const struct xnn_hardware_config* hardware = xnn_init_hardware_config();
  if (hardware->use_x86_avx512skx)
    ecx_avx512_set_floats(&configs[2]);
  else if (hardware->use_x86_avx2 && hardware->use_x86_fma3)
    ecx_avx2_set_floats(&configs[2]);
}

void ecx_set_qs8_qc8w_dwconv(struct xnn_dwconv_config* configs) {
  const struct xnn_hardware_config* hardware = xnn_init_hardware_config();
  if (hardware->use_x86_avx512skx)
    ecx_avx512_set_bytes(&configs[1]);
  else if (hardware->use_x86_avx2 && hardware->use_x86_fma3)
    ecx_avx2_set_bytes(&configs[2]);
  if (hardware->use_x86_avx512skx && hardware->use_x86_avx512vnni) ecx_vnni_set_bytes(&configs[1]);
}
#elif XNN_ARCH_ARM64
#define ECX_SET(name) ecx_neon_##name
#define ECX_TARGET
#define ECX_LANES 4
#define ECX_FLOAT_TAPS(row) LARGE_TAPS(row)
#define ECX_BYTE_TAPS(row) LARGE_TAPS(row)
#include "executorch_c/speed/depthwise.tmpl.h"

void ecx_set_f32_dwconv(struct xnn_dwconv_config* configs) { ecx_neon_set_floats(&configs[4]); }
#endif
