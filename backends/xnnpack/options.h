/* Options of a method, and of the process as defaults. */
#ifndef ECX_OPTIONS_H
#define ECX_OPTIONS_H

#include "call.h"

/* The delegates that share one workspace. They run one at a time. */
typedef enum ecx_sharing {
  ECX_SHARE_NONE,
  ECX_SHARE_PROGRAM,
  ECX_SHARE_GLOBAL,
  /* the default, unlike the reference's: a method runs its delegates one at a time anyway */
  ECX_SHARE_METHOD
} ecx_sharing;

typedef struct ecx_options {
  ecx_sharing sharing;
  bool cache;
} ecx_options;

extern const char *const ecx_option_keys[];

/* Reads the options of the process, overridden by the method's own. */
uint32_t ecx_options_read(const ecx_call *c, const ec_backend_init *what, ecx_options *out);
uint32_t ecx_options_set(const ecx_call *c, const ec_backend_option *option);
uint32_t ecx_options_get(ec_backend_option *option);

#endif
