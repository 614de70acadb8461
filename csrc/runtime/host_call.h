/* One call of a backend, or of a plug-in's operator: the context that the host table gets. */
#ifndef EC_RUNTIME_HOST_CALL_H
#define EC_RUNTIME_HOST_CALL_H

#include "runtime/native.h"

struct ec_host_call {
  ec_error *err;
  ec_arena *scratch;
  const ec_program *program; /* NULL: of no program */
  ec_threads *threads;
  ec_trace *trace;
  int depth;
  const ec_instr *instr; /* DelegateCall that is executed; NULL: none */
};

/* A call from inside a method; NULL: from outside of any. */
ec_host_call ec_host_call_of(const ec_method *m, ec_arena *scratch, ec_error *err);

/* resize of ec_host: gives an output of the call new sizes, and its view what follows from them. */
uint32_t ec_host_resize(ec_host_call *call, ec_backend_arg *arg, size_t rank, const int64_t *sizes);

/* The functions that backends are lent. Defined in host.c, the last file of this folder in order:
 * delegates, which methods run, may run programs of their own through it. */
extern const ec_host ec_host_table;

#endif
