/* Plug-ins of this tree that need nothing but the C library, and XNNPACK if it is built in. Small
 * builds have none. */
#include "tools/plugins.h"

#ifndef EC_SMALL
#include "../../backends/demo/demo.h"
#include "../../backends/interpreted/backends.h"
#include "../../backends/operators/libraries.h"
#ifdef EC_RUN_XNNPACK
#include "../../backends/xnnpack/xnnpack_backend.h"
#endif

ecr_status plugins_register(ecr_error *error) {
  static const ec_backend *const backends[] = {
      &demo_compiler_backend, &demo_executor_backend, &ecm_backend, &emx_backend, &ecn_backend,
      &ecv_backend, &ets_backend, &ets_vgf_backend,
#ifdef EC_RUN_XNNPACK
      &ecx_backend,
#endif
  };
  static const ec_operators *const operators[] = {&evo_operators, &eto_operators, &emo_operators,
                                                &cortex_m_operators, &cadence_operators};
  ecr_status status = 0;
  for (size_t i = 0; !status && i < sizeof backends / sizeof *backends; i++)
    status = ecr_register_backend(backends[i], error);
  for (size_t i = 0; !status && i < sizeof operators / sizeof *operators; i++)
    status = ecr_register_operators(operators[i], error);
  return status;
}
#else
ecr_status plugins_register(ecr_error *error) {
  (void)error;
  return 0;
}
#endif
