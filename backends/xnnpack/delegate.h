/* A delegate: a graph, the XNNPACK runtime made of it, and its arguments. */
#ifndef ECX_DELEGATE_H
#define ECX_DELEGATE_H

#include "shared.h"

/* What a runtime is made with. */
typedef struct ecx_plan {
  xnn_weights_cache_t cache; /* or NULL */
  xnn_workspace_t workspace;
  pthreadpool_t threads; /* or NULL */
  uint32_t flags;        /* of xnn_create_runtime_v4 */
  bool show_all;         /* every computed value becomes an output: see ecx_shown_id */
} ecx_plan;

/* An argument as XNNPACK gets it. */
typedef struct ecx_external {
  uint32_t value;    /* in the graph */
  uint32_t position; /* among the arguments */
  void *staging;     /* memory of its own, where the argument's cannot be used */
  size_t staging_bytes;
  bool is_staged;    /* in the present call */
} ecx_external;

typedef struct ecx_delegate {
  ecx_graph graph;
  ecx_external *externals; /* inputs that are read, then outputs */
  uint32_t external_count, input_count;
  ecx_workspace *workspace;
  ecx_cache *cache; /* NULL: weights are packed by XNNPACK itself */
  xnn_runtime_t runtime;
  struct xnn_external_value *pointers; /* as the runtime was set up */
  bool is_shaped, is_set_up;           /* the runtime knows the present shapes, pointers */
  bool is_rigid;                       /* other shapes need another runtime */
} ecx_delegate;

/* build.c: a runtime of the graph as it is now. */
uint32_t ecx_build(const ecx_call *c, const ecx_graph *g, const ecx_plan *plan, xnn_runtime_t *out);
/* Makes (again) the runtime of a delegate whose workspace the caller has entered. */
uint32_t ecx_delegate_build(const ecx_call *c, ecx_delegate *d);
/* The id of value `index` in a runtime that shows all. */
static inline uint32_t ecx_shown_id(const ecx_graph *g, uint32_t index) {
  return g->extern_count + index;
}

/* execute.c */
uint32_t ecx_execute(const ecx_call *c, ecx_delegate *d, ec_backend_arg *args, size_t count);

#endif
