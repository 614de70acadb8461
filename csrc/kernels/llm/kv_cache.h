/* Keys and values of attention layers that a caller holds: no value of the program, which names
 * only the layer. kvcache::update_and_attend appends to it.
 *
 * Every layer stores its positions from 0 to `capacity`, a window layer too: it hides those before
 * its window. A layer gets memory at its first update, which tells its sizes. */
#ifndef EC_KERNELS_LLM_KV_CACHE_H
#define EC_KERNELS_LLM_KV_CACHE_H

#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/lock.h"

enum { EC_MAX_KV_LAYERS = 1024 };

/* What the caller says of a cache. */
typedef struct ec_kv_config {
  int64_t capacity;     /* positions of a layer */
  ec_dtype dtype;       /* of stored keys and values: one of EC_SET_SINGLE */
  int64_t layers;       /* at most EC_MAX_KV_LAYERS; 0: that many */
  int64_t heads, dim;   /* of keys; 0: those of the first update */
  const int64_t *windows; /* positions that a query sees, itself included; 0: all. Copied */
  size_t window_count;  /* one for each layer; 1: for all; 0: all positions */
} ec_kv_config;

/* One layer: keys (batch, heads, capacity, dim), values of another last size. */
typedef struct ec_kv_layer {
  int64_t batch, heads, dim, v_dim;
  int64_t used;   /* positions with keys and values */
  char *keys, *values; /* NULL: no memory yet */
} ec_kv_layer;

typedef struct ec_kv_cache {
  ec_kv_config config; /* without windows */
  int64_t *windows;    /* one for each layer */
  ec_kv_layer *layers; /* config.layers of them */
  _Atomic size_t holders;
  ec_lock lock; /* held while layers are read or changed */
} ec_kv_cache;

/* Returns true for operators that need ec_call.kv_cache, by name. */
static inline bool ec_kv_cache_is_used_by(const char *op) {
  return strncmp(op, "kvcache::", strlen("kvcache::")) == 0;
}

/* Creates a cache with one holder. Errors: InvalidArgument (names the member), or no memory. */
ec_status ec_kv_cache_new(const ec_kv_config *config, ec_kv_cache **out, ec_error *err);
void ec_kv_cache_retain(ec_kv_cache *cache);  /* NULL is allowed */
void ec_kv_cache_release(ec_kv_cache *cache); /* NULL is allowed; the last holder's frees it */

/* Errors: InvalidState if this thread holds the lock, or a thread lost in a fork does. */
ec_status ec_kv_cache_lock(ec_kv_cache *cache, ec_error *err);
void ec_kv_cache_unlock(ec_kv_cache *cache);

/* The functions below need the lock. */

/* Gives a layer its memory, zeroed, or checks that it has these sizes. Errors: InvalidArgument (the
 * sizes, or another layer's), or no memory. */
ec_status ec_kv_cache_open_layer(ec_kv_cache *cache, int64_t index, const ec_kv_layer *sizes,
                                 ec_kv_layer **out, ec_error *err);

/* Forgets the positions from `length` on. */
void ec_kv_cache_rewind(ec_kv_cache *cache, int64_t length);

/* Returns the largest number of positions of a layer. */
int64_t ec_kv_cache_length(const ec_kv_cache *cache);
/* Returns the memory of all layers. */
size_t ec_kv_cache_bytes(const ec_kv_cache *cache);

/* A copy of the used positions as bytes. Restoring checks it: InvalidArgument, and no change, for
 * bytes of a cache of another configuration or of damaged ones. */
size_t ec_kv_cache_state_size(const ec_kv_cache *cache);
void ec_kv_cache_save(const ec_kv_cache *cache, uint8_t *to);
ec_status ec_kv_cache_restore(ec_kv_cache *cache, const uint8_t *from, size_t size, ec_error *err);

#endif
