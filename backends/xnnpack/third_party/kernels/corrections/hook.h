/* The hook of XNNPACK's configurations: XNN_INIT_ONCE calls it after each has been initialised. */
#ifndef ECX_HOOK_H
#define ECX_HOOK_H

#include "xnnpack/common.h"
#include "xnnpack/config.h"

/* Sets kernels of our own in the configuration of a name. */
XNN_INTERNAL void ecx_set_kernels(const char* name, void* config);

#define ECX_CONFIG(type, name) \
  XNN_INTERNAL void ecx_set_##name(struct xnn_##type##_config* config);
#include "executorch_c/corrections/configs.def"
#if __has_include("executorch_c/speed/configs.def")
#include "executorch_c/speed/configs.def"
#endif
#undef ECX_CONFIG

#endif
