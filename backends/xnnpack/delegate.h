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

typedef struct ecx_buffer {
  void *at; /* NULL: there is none yet */
  size_t bytes;
} ecx_buffer;

/* An argument as XNNPACK gets it. */
typedef struct ecx_external {
  uint32_t value;    /* in the graph */
  uint32_t position; /* among the arguments */
  ecx_buffer staging; /* memory of its own, where the argument's cannot be used */
  bool is_staged;     /* in the present call */
} ecx_external;

/* Runtimes of a delegate. All but the first are made when a trace asks for them. */
typedef enum ecx_role {
  ECX_PLAIN_RUN, /* as fast as it goes */
  ECX_TIMED_RUN, /* tells what each node took */
  ECX_SHOWN_RUN, /* keeps what each node has computed; its outputs go nowhere */
  ECX_ROLES
} ecx_role;

typedef struct ecx_engine {
  xnn_runtime_t runtime;
  void *threads;                       /* the pool that the runtime was made with; or NULL */
  xnn_workspace_t workspace;           /* its own; NULL: the delegate's */
  struct xnn_external_value *pointers; /* as the runtime was set up */
  uint32_t pointer_count;
  uint64_t shapes; /* of which the runtime knows: ecx_delegate.shapes */
  bool is_set_up;  /* the runtime knows the pointers */
} ecx_engine;

typedef struct ecx_delegate {
  ecx_graph graph;
  ecx_external *externals; /* inputs that are read, then outputs */
  uint32_t external_count, input_count;
  ecx_workspace *workspace;
  ecx_cache *cache; /* NULL: weights are packed by XNNPACK itself */
  ecx_engine engines[ECX_ROLES];
  void **pointers;          /* of the externals in the present call */
  ecx_buffer *shown;        /* by value: what the shown run computes; NULL before the first */
  uint64_t shapes, changes; /* number of the present shapes (0: none are known), and the last one */
  size_t own_packed; /* bytes of weights that XNNPACK itself has packed */
} ecx_delegate;

/* build.c: a runtime of the graph as it is now. */
uint32_t ecx_build(const ecx_call *c, const ecx_graph *g, const ecx_plan *plan, xnn_runtime_t *out);
/* The id of value `index` in a runtime that shows all. */
static inline uint32_t ecx_shown_id(const ecx_graph *g, uint32_t index) {
  return g->extern_count + index;
}

/* Whether the shown run keeps it. */
static inline bool ecx_is_shown(const ecx_graph *g, const ecx_value *v) {
  return v->producer != ECX_NONE && !g->nodes[v->producer].is_dead && !v->is_output &&
         v->scheme != ECX_PER_TOKEN;
}

/* engine.c */
uint32_t ecx_engine_build(const ecx_call *c, ecx_delegate *d, ecx_role role);
/* Runs the graph for the present shapes; pointers[i] is the memory of external i. */
uint32_t ecx_engine_run(const ecx_call *c, ecx_delegate *d, ecx_role role, void *const *pointers);
void ecx_engine_close(const ec_host *host, ecx_delegate *d, ecx_role role);

/* trace.c: runs the graph like ecx_engine_run, and reports what the call's trace wants. */
uint32_t ecx_trace_run(const ecx_call *c, ecx_delegate *d, uint32_t wants, void *const *pointers);

void ecx_shown_close(const ec_host *host, ecx_delegate *d);

/* describe.c: shows what is in a payload. */
uint32_t ecx_describe(const ecx_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor);

/* execute.c */
uint32_t ecx_execute(const ecx_call *c, ecx_delegate *d, ec_backend_arg *args, size_t count);

/* memory.c: makes a buffer at least so large, with ECX_EXTRA behind it; what it held is lost. */
bool ecx_buffer_grow(const ec_host *host, ecx_buffer *buffer, size_t bytes);
void ecx_buffer_close(const ec_host *host, ecx_buffer *buffer);

/* XNNPACK's allocator. Bytes of large blocks that this thread has allocated since the
 * last call, so that packed weights and workspaces can be reported. */
extern const struct xnn_allocator ecx_allocator;
size_t ecx_allocated(void);

#endif
