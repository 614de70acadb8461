/* Options of a method, and of the process as defaults. */
#ifndef ECO_OPTIONS_H
#define ECO_OPTIONS_H

#include "executorch_c/backend.h"

typedef struct eco_options {
  char precision[16];  /* value of INFERENCE_PRECISION_HINT; "auto": the engine's own default */
  int64_t num_threads; /* 0: those of the method */
  bool profile;        /* the engine measures its nodes, for traces */
} eco_options;

extern const char *const eco_option_keys[];

/* Reads the options of the process, overridden by the method's own. */
uint32_t eco_options_read(const ec_backend_call *c, const ec_backend_init *what, eco_options *out);
uint32_t eco_options_set(const ec_backend_call *c, const ec_backend_option *option);
uint32_t eco_options_get(ec_backend_option *option);

#endif
