/* Packed weights, which the delegates of a program share. */
#ifndef ECX_CACHE_H
#define ECX_CACHE_H

#include "graph.h"

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
