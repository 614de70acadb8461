/* One call of a backend or a plug-in operator: the context of the host table's functions. */
#ifndef EC_RUNTIME_HOST_CALL_H
#define EC_RUNTIME_HOST_CALL_H

#include "runtime/native.h"

struct ec_host_call {
  ec_error *err;
  ec_arena *scratch;
  const ec_program *program; /* NULL: no program */
  ec_threads *threads;
  ec_trace *trace;
  int depth;
  const ec_method *method; /* NULL: no method */
  const ec_method_options *options; /* of the method; NULL: no method */
  ec_nested_delegation delegated; /* of the programs that the call has opened */
  bool uses_kv_cache; /* one of these programs does */
  const ec_instr *instr; /* the DelegateCall being executed; NULL: none */
};

/* Returns the context of a call from inside a method; NULL: from outside any method. */
ec_host_call ec_host_call_of(const ec_method *m, ec_arena *scratch, ec_error *err);

/* Implements resize of ec_host: sets new sizes of an output and updates its view. */
uint32_t ec_host_resize(ec_host_call *call, ec_backend_arg *arg, size_t rank, const int64_t *sizes);

/* The functions for backends. Defined in host.c, which depends on the rest of the folder: a
 * delegate run by a method may run nested programs through this table. */
extern const ec_host ec_host_table;

#endif
