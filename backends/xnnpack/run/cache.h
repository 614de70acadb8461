/* Packed weights, shared by the delegates of a program. */
#ifndef ECX_RUN_CACHE_H
#define ECX_RUN_CACHE_H

#include "nodes/graph.h"

/* The packed weights of one delegate. */
typedef struct ecx_cache ecx_cache;

/* Opens a cache. `graph` lives as long as the cache. */
uint32_t ecx_cache_open(const ecx_call *c, const ecx_graph *graph, const void *program,
                        ecx_cache **out);
void ecx_cache_close(ecx_cache *cache); /* after the runtime */
/* Returns the cache for xnn_create_runtime_v4, called between enter and leave. Packed data is
 * released. */
xnn_weights_cache_t ecx_cache_enter(const ecx_call *c, ecx_cache *cache);
void ecx_cache_leave(ecx_cache *cache);
/* Says which call runs the delegate from now on: its products may pack deferred weights. */
void ecx_cache_use(ecx_cache *cache, const ecx_call *c);
void ecx_cache_trim(ecx_cache *cache); /* called when no more weights are expected for now */

/* Large packed weights move to huge pages bit by bit: after a call that took `elapsed` ns, in a
 * part of that time. Nothing is left to do once they are settled. */
bool ecx_cache_is_settled(const ecx_cache *cache);
void ecx_cache_settle(ecx_cache *cache, uint64_t elapsed);

/* All packed weights during a fork: held before, when no thread packs, and freed after. */
void ecx_caches_hold(void);
void ecx_caches_free(void);

typedef struct ecx_cache_figures {
  size_t packed_bytes; /* used by this delegate, shared or not */
  size_t shared_bytes; /* the part packed for another delegate */
  size_t hits, misses;
} ecx_cache_figures;

ecx_cache_figures ecx_cache_report(const ecx_cache *cache);

#endif
