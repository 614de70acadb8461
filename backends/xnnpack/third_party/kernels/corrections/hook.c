/* The configurations that have kernels of our own. */
#include "executorch_c/corrections/hook.h"

#include <string.h>

#define ECX_CONFIG(type, name) \
  static void set_##name(void* config) { ecx_set_##name(config); }
#include "executorch_c/corrections/configs.def"
#if __has_include("executorch_c/speed/configs.def")
#include "executorch_c/speed/configs.def"
#endif
#undef ECX_CONFIG

static const struct {
  const char* name;
  void (*set)(void* config);
} configs[] = {
#define ECX_CONFIG(type, name) {#name, set_##name},
#include "executorch_c/corrections/configs.def"
#if __has_include("executorch_c/speed/configs.def")
#include "executorch_c/speed/configs.def"
#endif
#undef ECX_CONFIG
};

void ecx_set_kernels(const char* name, void* config) {
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
    if (strcmp(configs[i].name, name) == 0) configs[i].set(config);
}
