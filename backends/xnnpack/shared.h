/* What delegates share: workspaces, and packed weights of the same program. */
#ifndef ECX_SHARED_H
#define ECX_SHARED_H

#include <pthread.h>

#include "graph.h"
#include "options.h"

/* Memory for the values between nodes. Whoever uses a shared one holds `lock`. */
typedef struct ecx_workspace {
  struct ecx_workspace *next;
  const void *owner; /* a program, or the address that stands for the process; NULL: not shared */
  size_t users;
  pthread_mutex_t lock;
  xnn_workspace_t workspace;
  size_t bytes;
} ecx_workspace;

uint32_t ecx_workspace_open(const ecx_call *c, ecx_sharing sharing, const ec_backend_init *what,
                            ecx_workspace **out);
/* One of XNNPACK's own, for xnn_release_workspace. */
uint32_t ecx_workspace_create(const ecx_call *c, xnn_workspace_t *out);
void ecx_workspace_close(const ec_host *host, ecx_workspace *w);
/* Nothing where it is not shared. */
void ecx_workspace_enter(ecx_workspace *w);
void ecx_workspace_leave(ecx_workspace *w);

/* Memory of packed weights, block behind block in pieces that are large enough for huge pages; a
 * piece goes with the last of its blocks. NULL: there is none yet. */
typedef struct ecx_piece ecx_piece;
void *ecx_pieces_take(ecx_piece **pieces, size_t size); /* 64-byte aligned; NULL: no memory */
void ecx_pieces_give(ecx_piece **pieces, const void *block, size_t size); /* as it was taken */
void ecx_pieces_trim(ecx_piece *pieces); /* the rests of huge pages go back to the system */

/* Packed weights, as one delegate sees them. */
typedef struct ecx_cache ecx_cache;

/* `graph` lives as long as the cache. */
uint32_t ecx_cache_open(const ecx_call *c, const ecx_graph *graph, const void *program,
                        ecx_cache **out);
void ecx_cache_close(ecx_cache *cache); /* after the runtime */
/* For xnn_create_runtime_v4, between enter and leave. What has been packed is done with. */
xnn_weights_cache_t ecx_cache_enter(const ecx_call *c, ecx_cache *cache);
void ecx_cache_leave(ecx_cache *cache);
void ecx_cache_trim(ecx_cache *cache); /* where no more weights are to come for the time being */

typedef struct ecx_cache_figures {
  size_t packed_bytes; /* that this delegate uses, shared or not */
  size_t shared_bytes; /* of those, packed for another delegate */
  size_t hits, misses;
} ecx_cache_figures;

ecx_cache_figures ecx_cache_report(const ecx_cache *cache);

#endif
