/* A delegate: a graph, the XNNPACK runtimes made of it, and its arguments. */
#ifndef ECX_DELEGATE_H
#define ECX_DELEGATE_H

#include "cache.h"
#include "graph.h"
#include "memory.h"
#include "workspace.h"

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

#endif
