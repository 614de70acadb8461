/* Options of a method, and of the process for methods that say nothing. */
#ifndef ECX_OPTIONS_H
#define ECX_OPTIONS_H

#include "call.h"

/* Whose delegates share one workspace; those that do run one after the other. */
typedef enum ecx_sharing {
  ECX_SHARE_NONE,
  ECX_SHARE_PROGRAM,
  ECX_SHARE_GLOBAL,
  ECX_SHARE_METHOD /* ours, the default: a method runs its delegates one after the other anyway */
} ecx_sharing;

typedef struct ecx_options {
  ecx_sharing sharing;
  bool cache;
} ecx_options;

extern const char *const ecx_option_keys[];

/* Those of the process, overridden by the method's own. */
uint32_t ecx_options_read(const ecx_call *c, const ec_backend_init *what, ecx_options *out);
uint32_t ecx_options_set(const ecx_call *c, const ec_backend_option *option);
uint32_t ecx_options_get(ec_backend_option *option);

#endif
