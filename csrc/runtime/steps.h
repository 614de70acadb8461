/* Handlers of the steps that passes make: steps.def. */
#ifndef EC_RUNTIME_STEPS_H
#define EC_RUNTIME_STEPS_H

#include "runtime/native.h"

#define EC_STEP_KIND(name, handler) \
  ec_status handler(ec_method *m, const ec_step *step, size_t *next, ec_error *err);
#include "runtime/steps.def"
#undef EC_STEP_KIND

#endif
