/* Runs instructions and calls with a trace. exec.c calls these functions only with one. */
#ifndef EC_RUNTIME_TRACE_H
#define EC_RUNTIME_TRACE_H

#include "runtime/native.h"

ec_status ec_traced_step(ec_method *m, size_t chain, const ec_step *step, ec_handler handler,
                         size_t *next, ec_error *err);
ec_status ec_traced_call(ec_method *m, ec_status (*run)(ec_method *m, ec_error *err),
                         ec_error *err);

#endif
