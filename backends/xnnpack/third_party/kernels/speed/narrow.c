/* Layers of few outputs by XNNPACK's kernels of 16 columns, which its build has not among its own:
 * layers of at most 16 channels computed 32, and transposed convolutions and linear layers of less
 * than 32 ran in SSE. */
#include <string.h>

#include "executorch_c/corrections/hook.h"
#include "xnnpack/gemm.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/igemm.h"
#include "xnnpack/microfnptr.h"
#include "xnnpack/microkernel-utils.h"
#include "xnnpack/microparams-init.h"
#include "xnnpack/pack.h"
#include "xnnpack/packw.h"

#if XNN_ARCH_X86_64
void ecx_set_f32_gemm_nr2(struct xnn_gemm_config* config) {
#if XNN_ENABLE_AVX512F
  if (XNN_PLATFORM_MOBILE || !xnn_init_hardware_config()->use_x86_avx512f) return;
  memset(config, 0, sizeof *config);
#define ECX_ROWS(kind, rows)                                                               \
  config->minmax.kind[rows - 1] = xnn_init_hmp_##kind##_ukernel(                           \
      (xnn_##kind##_ukernel_fn) xnn_f32_##kind##_minmax_ukernel_##rows##x16__avx512f_broadcast);
  ECX_ROWS(gemm, 1)
  ECX_ROWS(gemm, 7)
  ECX_ROWS(igemm, 1)
  ECX_ROWS(igemm, 7)
#undef ECX_ROWS
  config->init.f32 = xnn_init_f32_minmax_scalar_params;
  config->pack_gemm_gio = (xnn_packw_gemm_gio_ukernel_fn) xnn_pack_f32_gemm_gio_w;
  config->pack_gemm_goi =
      (xnn_packw_gemm_goi_ukernel_fn) xnn_x32_packw_gemm_goi_ukernel_x16__avx512f_u4_prfm;
  config->mr = 7;
  config->nr = 16;
#else
  (void) config;
#endif
}
#endif
