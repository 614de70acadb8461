/* A delegate: a graph, its XNNPACK runtimes, and its arguments. */
#ifndef ECX_RUN_DELEGATE_H
#define ECX_RUN_DELEGATE_H

#include "delegate_at_load/draft.h"
#include "nodes/graph.h"
#include "run/cache.h"
#include "run/memory.h"
#include "run/workspace.h"

/* An argument for XNNPACK. */
typedef struct ecx_external {
  uint32_t value;    /* in the graph */
  uint32_t position; /* among the arguments */
  ecx_buffer staging; /* separate memory, if the argument's cannot be used */
  bool is_staged;     /* in the current call */
} ecx_external;

/* Runtimes of a delegate. All except the first are created when a trace requests them. */
typedef enum ecx_role {
  ECX_PLAIN_RUN, /* without overhead */
  ECX_TIMED_RUN, /* reports the time of each node */
  ECX_SHOWN_RUN, /* keeps the results of each node; its outputs are discarded */
  ECX_ROLES
} ecx_role;

typedef struct ecx_engine {
  xnn_runtime_t runtime;
  void *threads;                       /* the pool of the runtime; or NULL */
  xnn_workspace_t workspace;           /* of this runtime; NULL: the delegate's */
  struct xnn_external_value *pointers; /* as in the last setup of the runtime */
  uint32_t pointer_count;
  uint64_t shapes; /* value of ecx_delegate.shapes at the last setup */
  uint64_t elisions; /* value of ecx_graph.elisions when the runtime was created */
  size_t planned; /* elements of the inputs when it was created: its workspace holds as many */
  bool is_set_up;  /* the pointers are set up */
} ecx_engine;

typedef struct ecx_delegate {
  ecx_graph graph;
  ecx_draft draft; /* of a run delegated at load: owns constants */
  void *written;   /* likewise: its payload, which nodes refer to */
  ecx_external *externals; /* used inputs, then outputs */
  uint32_t external_count, input_count;
  ecx_workspace *workspace;
  ecx_cache *cache; /* NULL: XNNPACK packs weights itself */
  ecx_engine engines[ECX_ROLES];
  void **pointers;          /* of the externals in the current call */
  bool is_repeatable; /* a call with the same arguments has to run the plain engine, no more */
  ecx_buffer *shown;        /* by value: results of the shown run; NULL before the first one */
  /* number of the current shapes (0: unknown), and the highest number so far */
  uint64_t shapes, changes;
  size_t own_packed; /* bytes of weights packed by XNNPACK itself */
} ecx_delegate;

#endif
