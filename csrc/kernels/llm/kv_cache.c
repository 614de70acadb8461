/* Caches of keys and values: memory, positions, copies. */
#include "kernels/llm/kv_cache.h"

#include <inttypes.h>
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/limits.h"

static ec_status check_config(const ec_kv_config *config, ec_error *err) {
  if (config->capacity < 1)
    return ec_fail(err, EC_INVALID_ARGUMENT, "capacity %" PRId64 ", expected 1 or more",
                   config->capacity);
  if (config->layers < 0 || config->layers > EC_MAX_KV_LAYERS)
    return ec_fail(err, EC_INVALID_ARGUMENT, "n_layers %" PRId64 ", expected 1 to %d",
                   config->layers, EC_MAX_KV_LAYERS);
  if (config->heads < 0 || config->dim < 0)
    return ec_fail(err, EC_INVALID_ARGUMENT, "%s %" PRId64 ", expected 1 or more",
                   config->heads < 0 ? "n_kv_heads" : "head_dim",
                   config->heads < 0 ? config->heads : config->dim);
  if (!ec_dtype_in(config->dtype, EC_SET_SINGLE))
    return ec_fail(err, EC_INVALID_ARGUMENT, "dtype %s, expected float32, float16 or bfloat16",
                   ec_dtype_name(config->dtype));
  if (config->window_count > 1 && config->layers &&
      (uint64_t)config->layers != config->window_count)
    return ec_fail(err, EC_INVALID_ARGUMENT, "%zu windows for %" PRId64 " layers",
                   config->window_count, config->layers);
  if (config->window_count > EC_MAX_KV_LAYERS)
    return ec_fail(err, EC_INVALID_ARGUMENT, "%zu windows, expected at most %d",
                   config->window_count, EC_MAX_KV_LAYERS);
  for (size_t i = 0; i < config->window_count; i++)
    if (config->windows[i] < 0)
      return ec_fail(err, EC_INVALID_ARGUMENT, "window %" PRId64 ", expected 0 (none) or more",
                     config->windows[i]);
  return EC_OK;
}

ec_status ec_kv_cache_new(const ec_kv_config *config, ec_kv_cache **out, ec_error *err) {
  EC_TRY(check_config(config, err));
  ec_kv_cache *cache = ec_alloc_zeroed(sizeof *cache);
  if (!cache) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a KV cache");
  cache->config = *config;
  cache->config.windows = NULL;
  if (!config->layers)
    cache->config.layers =
        config->window_count > 1 ? (int64_t)config->window_count : EC_MAX_KV_LAYERS;
  const size_t layers = (size_t)cache->config.layers;
  atomic_init(&cache->holders, 1);
  ec_lock_init(&cache->lock);
  cache->layers = ec_alloc_array(layers, sizeof *cache->layers);
  cache->windows = ec_alloc_array(layers, sizeof *cache->windows);
  if (!cache->layers || !cache->windows) {
    ec_kv_cache_release(cache);
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a KV cache");
  }
  for (size_t i = 0; i < layers && config->window_count; i++)
    cache->windows[i] = config->windows[config->window_count > 1 ? i : 0];
  *out = cache;
  return EC_OK;
}

void ec_kv_cache_retain(ec_kv_cache *cache) {
  if (cache) atomic_fetch_add(&cache->holders, 1);
}

void ec_kv_cache_release(ec_kv_cache *cache) {
  if (!cache || atomic_fetch_sub(&cache->holders, 1) > 1) return;
  for (int64_t i = 0; cache->layers && i < cache->config.layers; i++) {
    ec_free(cache->layers[i].keys);
    ec_free(cache->layers[i].values);
  }
  ec_free(cache->layers);
  ec_free(cache->windows);
  ec_lock_deinit(&cache->lock);
  ec_free(cache);
}

ec_status ec_kv_cache_lock(ec_kv_cache *cache, ec_error *err) {
  switch (ec_lock_wait(&cache->lock, NULL, NULL)) {
  case EC_LOCKED: return EC_OK;
  case EC_LOCKED_BY_NOBODY:
    return ec_fail(err, EC_INVALID_STATE, "the KV cache was in use in another thread when this "
                   "process was forked: make a new one");
  default: return ec_fail(err, EC_INVALID_STATE, "the KV cache is in use in this thread");
  }
}

void ec_kv_cache_unlock(ec_kv_cache *cache) { ec_lock_release(&cache->lock); }

/* ---- layers ------------------------------------------------------------------------------ */

/* Computes the bytes of `positions` of a layer, `dim` numbers for each head; false on overflow. */
static bool compute_bytes(const ec_kv_cache *cache, const ec_kv_layer *layer, int64_t dim,
                          int64_t positions, size_t *bytes) {
  *bytes = ec_dtype_size(cache->config.dtype);
  return ec_mul_size(*bytes, (size_t)layer->batch, bytes) &&
         ec_mul_size(*bytes, (size_t)layer->heads, bytes) &&
         ec_mul_size(*bytes, (size_t)dim, bytes) &&
         ec_mul_size(*bytes, (size_t)positions, bytes) && *bytes <= EC_MAX_BYTES;
}

static ec_status check_sizes(const ec_kv_cache *cache, int64_t index, const ec_kv_layer *sizes,
                             ec_error *err) {
  const ec_kv_config *config = &cache->config;
  if (index < 0 || index >= config->layers)
    return ec_fail(err, EC_INVALID_ARGUMENT, "layer_id %" PRId64 ", the KV cache has layers 0 to %"
                   PRId64, index, config->layers - 1);
  if (config->heads && sizes->heads != config->heads)
    return ec_fail(err, EC_INVALID_ARGUMENT, "layer %" PRId64 " has %" PRId64 " heads of keys, the "
                   "KV cache was made for n_kv_heads %" PRId64, index, sizes->heads, config->heads);
  if (config->dim && sizes->dim != config->dim)
    return ec_fail(err, EC_INVALID_ARGUMENT, "layer %" PRId64 " has %" PRId64 " numbers in a head, "
                   "the KV cache was made for head_dim %" PRId64, index, sizes->dim, config->dim);
  const ec_kv_layer *layer = &cache->layers[index];
  if (!layer->keys || (layer->batch == sizes->batch && layer->heads == sizes->heads &&
                       layer->dim == sizes->dim && layer->v_dim == sizes->v_dim))
    return EC_OK;
  return ec_fail(err, EC_INVALID_ARGUMENT, "layer %" PRId64 " stores batch %" PRId64 ", %" PRId64
                 " heads of %" PRId64 " and %" PRId64 " numbers in k and v, found batch %" PRId64
                 ", %" PRId64 " heads of %" PRId64 " and %" PRId64, index, layer->batch,
                 layer->heads, layer->dim, layer->v_dim, sizes->batch, sizes->heads, sizes->dim,
                 sizes->v_dim);
}

ec_status ec_kv_cache_open_layer(ec_kv_cache *cache, int64_t index, const ec_kv_layer *sizes,
                                 ec_kv_layer **out, ec_error *err) {
  size_t keys, values;
  EC_TRY(check_sizes(cache, index, sizes, err));
  ec_kv_layer *layer = *out = &cache->layers[index];
  if (layer->keys) return EC_OK;
  const int64_t capacity = cache->config.capacity;
  if (!compute_bytes(cache, sizes, sizes->dim, capacity, &keys) ||
      !compute_bytes(cache, sizes, sizes->v_dim, capacity, &values))
    return ec_fail(err, EC_INVALID_ARGUMENT, "the bytes of layer %" PRId64 " of a KV cache of %"
                   PRId64 " positions overflow", index, capacity);
  ec_kv_layer opened = *sizes;
  opened.used = 0;
  opened.keys = ec_alloc_zeroed(keys);
  opened.values = opened.keys ? ec_alloc_zeroed(values) : NULL;
  if (!opened.values) {
    ec_free(opened.keys);
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for layer %" PRId64 " of a KV cache"
                   " of %" PRId64 " positions: %zu bytes of keys and %zu of values", index,
                   capacity, keys, values);
  }
  *layer = opened;
  return EC_OK;
}

void ec_kv_cache_rewind(ec_kv_cache *cache, int64_t length) {
  for (int64_t i = 0; i < cache->config.layers; i++)
    cache->layers[i].used = ec_min_i64(cache->layers[i].used, length);
}

int64_t ec_kv_cache_length(const ec_kv_cache *cache) {
  int64_t length = 0;
  for (int64_t i = 0; i < cache->config.layers; i++)
    length = ec_max_i64(length, cache->layers[i].used);
  return length;
}

size_t ec_kv_cache_bytes(const ec_kv_cache *cache) {
  size_t total = 0, bytes;
  for (int64_t i = 0; i < cache->config.layers; i++) {
    const ec_kv_layer *layer = &cache->layers[i];
    if (!layer->keys) continue;
    const int64_t dims[] = {layer->dim, layer->v_dim};
    for (size_t d = 0; d < 2; d++)
      if (compute_bytes(cache, layer, dims[d], cache->config.capacity, &bytes)) total += bytes;
  }
  return total;
}

/* ---- copies ------------------------------------------------------------------------------ */

/* Before the numbers of a layer in a copy. */
typedef struct saved_layer {
  int64_t index, dtype, batch, heads, dim, v_dim, used;
} saved_layer;

static size_t saved_bytes(const ec_kv_cache *cache, const ec_kv_layer *layer) {
  size_t keys, values; /* parts of memory: no overflow */
  if (!layer->used || !compute_bytes(cache, layer, layer->dim, layer->used, &keys) ||
      !compute_bytes(cache, layer, layer->v_dim, layer->used, &values))
    return 0;
  return sizeof(saved_layer) + keys + values;
}

size_t ec_kv_cache_state_size(const ec_kv_cache *cache) {
  size_t size = 0;
  for (int64_t i = 0; i < cache->config.layers; i++)
    size += saved_bytes(cache, &cache->layers[i]);
  return size;
}

/* Keys or values of a layer: heads of `used` bytes that stand `step` bytes apart. */
typedef struct heads {
  char *data;
  int64_t count;
  size_t used, step;
} heads;

static heads heads_of(const ec_kv_cache *cache, const ec_kv_layer *layer, bool values) {
  const size_t row = (size_t)(values ? layer->v_dim : layer->dim) *
                     ec_dtype_size(cache->config.dtype);
  return (heads){values ? layer->values : layer->keys, layer->batch * layer->heads,
                 (size_t)layer->used * row, (size_t)cache->config.capacity * row};
}

/* Copies heads to a copy; returns the copy's place after them. */
static uint8_t *save_heads(const heads *h, uint8_t *to) {
  for (int64_t i = 0; i < h->count; i++, to += h->used)
    memcpy(to, h->data + (size_t)i * h->step, h->used);
  return to;
}

/* Copies heads from a copy; returns the copy's place after them. */
static const uint8_t *restore_heads(const heads *h, const uint8_t *from) {
  for (int64_t i = 0; i < h->count; i++, from += h->used)
    memcpy(h->data + (size_t)i * h->step, from, h->used);
  return from;
}

void ec_kv_cache_save(const ec_kv_cache *cache, uint8_t *to) {
  for (int64_t i = 0; i < cache->config.layers; i++) {
    const ec_kv_layer *layer = &cache->layers[i];
    if (!layer->used) continue;
    const saved_layer saved = {i, cache->config.dtype, layer->batch, layer->heads, layer->dim,
                               layer->v_dim, layer->used};
    memcpy(to, &saved, sizeof saved);
    const heads keys = heads_of(cache, layer, false), values = heads_of(cache, layer, true);
    to = save_heads(&values, save_heads(&keys, to + sizeof saved));
  }
}

/* Reads the next layer of a copy: its sizes, and the bytes of its numbers. */
static bool read_saved(const ec_kv_cache *cache, const uint8_t *from, size_t size,
                       saved_layer *saved, ec_kv_layer *layer, size_t *bytes) {
  size_t values;
  if (size < sizeof *saved) return false;
  memcpy(saved, from, sizeof *saved);
  *layer = (ec_kv_layer){saved->batch, saved->heads, saved->dim, saved->v_dim, saved->used,
                         NULL, NULL};
  if (saved->dtype != (int64_t)cache->config.dtype || saved->batch < 0 || saved->heads < 0 ||
      saved->dim < 0 || saved->v_dim < 0 || saved->used < 1 ||
      saved->used > cache->config.capacity)
    return false;
  return compute_bytes(cache, layer, layer->dim, layer->used, bytes) &&
         compute_bytes(cache, layer, layer->v_dim, layer->used, &values) &&
         ec_add_size(*bytes, values, bytes) && *bytes <= size - sizeof *saved;
}

/* Checks a copy (`applies` false), or copies its numbers to the layers. */
static ec_status read_state(ec_kv_cache *cache, const uint8_t *from, size_t size, bool applies,
                            ec_error *err) {
  saved_layer saved;
  ec_kv_layer sizes, *layer;
  size_t bytes;
  for (size_t at = 0; at < size; at += sizeof saved + bytes) {
    if (!read_saved(cache, from + at, size - at, &saved, &sizes, &bytes))
      return ec_fail(err, EC_INVALID_ARGUMENT, "the state is not that of a KV cache of %" PRId64
                     " positions of %s", cache->config.capacity,
                     ec_dtype_name(cache->config.dtype));
    EC_TRY(ec_kv_cache_open_layer(cache, saved.index, &sizes, &layer, err));
    if (!applies) continue;
    layer->used = saved.used;
    const heads keys = heads_of(cache, layer, false), values = heads_of(cache, layer, true);
    (void)restore_heads(&values, restore_heads(&keys, from + at + sizeof saved));
  }
  return EC_OK;
}

ec_status ec_kv_cache_restore(ec_kv_cache *cache, const uint8_t *from, size_t size,
                              ec_error *err) {
  EC_TRY(read_state(cache, from, size, false, err));
  ec_kv_cache_rewind(cache, 0);
  return read_state(cache, from, size, true, err);
}
