/* The backends of this folder, exported by module.c. */
#ifndef ECT_BACKENDS_H
#define ECT_BACKENDS_H

#include "executorch_c/backend.h"

extern const ec_backend ecm_backend;     /* CoreMLBackend */
extern const ec_backend emx_backend;     /* MLXBackend */
extern const ec_backend ecn_backend;     /* NativeBackend */
extern const ec_backend ets_backend;     /* TOSABackend */
extern const ec_backend ets_vgf_backend; /* VgfBackend */
extern const ec_backend ecv_backend;     /* VulkanBackend */

#endif
