/* Packed weights, shared between the delegates of a program by their sources.
 *
 * XNNPACK looks weights up by the addresses of a filter and a bias. Here the key is a text with
 * everything that packing depends on: the names of the data, shapes, datatypes, quantisation of
 * filter, input and output, and the parameters of the node. Weights without a name (inside old
 * payloads), and filters that two nodes of a delegate use in different ways, are packed for the
 * delegate alone.
 *
 * The offset that XNNPACK receives is the address itself, so reading needs no lock.
 *
 * A fork waits for the locks, which it does with the GIL: what allocates while it holds one of them
 * calls no function of the host that checks for interrupts.
 *
 * Large weights of linear layers are packed by a product that reads them, the third one where
 * packing is fast (third_party/kernels/speed/deferred.h): a block has the state of that, and memory
 * in slabs of their own, whose pages are not populated before. Their source has to be data of the
 * program's files, which live as long as the blocks. */
#include "run/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/values.h"
#include "run/memory.h"

enum {
  TEXT = 1024,
  GAP = 1 << 12,   /* maximum bytes between filters that are released together */
  RELEASE_BYTES = 1 << 20, /* bytes of packed filters that are released at once */
  PIECE = 1 << 21, /* addresses whose pages one thread releases: those of a table of pages */
  MIN_HUGE_BYTES = 1 << 24, /* bytes of packed weights that exceed the processor's list of pages */
  SHARE = 8 /* of the time of calls, one part is spent on huge pages */
};

/* A block of packed weights. */
typedef struct block {
  struct block *next;
  void *data;
  size_t size;
  char *text; /* NULL: of one delegate */
  uint32_t seed;
  size_t users;
  void *state; /* XNNPACK's, of deferred weights; NULL: packed at load */
  bool is_waiting; /* deferred, and not yet packed */
} block;

/* The packed weights of a program. */
typedef struct pool {
  struct pool *next;
  const void *program;
  size_t users;
  pthread_mutex_t lock; /* guards blocks, their memory, and the creation of runtimes */
  block *blocks;
  ecx_slab *slabs;
  ecx_slab *deferred;      /* slabs of deferred blocks */
  size_t waiting;          /* deferred blocks that are not yet packed */
  ecx_buffer spare;        /* memory that products borrow */
  size_t packed;           /* bytes of all blocks so far */
  uint64_t credit;         /* ns that may be spent on huge pages */
  _Atomic bool is_settled; /* no weights are left that huge pages would make faster */
} pool;

/* A delegate's name for the weights at these addresses. */
typedef struct name {
  const void *filter, *bias, *scales;
  size_t filter_bytes, scale_bytes;
  bool is_of_program; /* filter and scales live as long as the program */
  char *text; /* NULL: ambiguous */
} name;

struct ecx_cache {
  struct xnn_weights_cache_provider provider;
  const ec_host *host;
  const ecx_call *call; /* while a runtime is created or runs */
  pool *pool;
  name *names;
  size_t name_count;
  block *own;           /* packed for this delegate alone, or in progress */
  block **used;         /* of the pool */
  size_t used_count, used_room;
  const char *done; /* a packed part of the file that is not yet released */
  size_t done_bytes;
  ecx_buffer lent; /* to a product */
  ecx_cache_figures figures;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pool *pools;

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct description {
  char at[TEXT];
  size_t used;
} description;

static void add_bits(description *t, const char *label, uint32_t bits) {
  if (t->used < TEXT)
    t->used += (size_t)snprintf(t->at + t->used, TEXT - t->used, " %s%x", label, (unsigned)bits);
}

static void add_float(description *t, const char *label, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  add_bits(t, label, bits);
}

static void add_string(description *t, const char *string) {
  if (t->used < TEXT)
    t->used += (size_t)snprintf(t->at + t->used, TEXT - t->used, " %s", string);
}

static void add_quantization(description *t, const ecx_value *v) {
  add_bits(t, "type", v->dtype);
  add_bits(t, "zero", (uint32_t)v->zero_point);
  add_float(t, "scale", v->scale);
}

/* Adds a constant to the description. Returns false if a part of it has no name. */
static bool add_constant(description *t, const ecx_value *v) {
  if (!v->data.key || (v->scales.at && !v->scales.key)) return false;
  add_string(t, v->data.key);
  add_string(t, v->scales.key ? v->scales.key : "-");
  add_quantization(t, v);
  add_bits(t, "channel", v->channel_dim);
  add_bits(t, "group", v->group_size);
  for (size_t d = 0; d < v->shape.rank; d++) add_bits(t, "x", (uint32_t)v->shape.dims[d]);
  return true;
}

/* Describes everything that the packed weights of a node depend on. */
static bool describe_packing(const ecx_graph *g, const ecx_node *n, description *t) {
  const ecx_value *bias = n->kind->inputs > 2 ? ecx_in(g, n, 2) : NULL;
  t->used = 0;
  add_string(t, n->kind->name);
  add_bits(t, "flags", n->flags);
  /* all fields before its operands */
  for (unsigned field = 0; field < n->kind->layout->in[0]; field++)
    add_bits(t, "", ec_fb_u32(n->params, field));
  add_quantization(t, ecx_in(g, n, 0));
  add_quantization(t, ecx_out(g, n, 0));
  return add_constant(t, ecx_in(g, n, 1)) && (!bias || add_constant(t, bias)) && t->used < TEXT;
}

static name *find_name(const ecx_cache *cache, const void *filter, const void *bias) {
  for (size_t i = 0; i < cache->name_count; i++)
    if (cache->names[i].filter == filter && cache->names[i].bias == bias) return &cache->names[i];
  return NULL;
}

static bool is_of_program(const ecx_data *data) { return data->is_of_program && !data->copy; }

static bool add_name(ecx_cache *cache, const ecx_value *filter, const void *bias,
                     const description *t) {
  name *known = find_name(cache, filter->data.at, bias);
  if (known) {
    if (known->text && (!t || strcmp(known->text, t->at) != 0)) {
      cache->host->free(known->text);
      known->text = NULL;
    }
    return true;
  }
  char *copy = t ? cache->host->alloc(t->used + 1) : NULL;
  if (copy) memcpy(copy, t->at, t->used);
  cache->names[cache->name_count++] = (name){
    .filter = filter->data.at,
    .bias = bias,
    .filter_bytes = filter->data.size,
    .scales = filter->scales.at,
    .scale_bytes = filter->scales.size,
    .is_of_program = is_of_program(&filter->data) &&
                     (filter->scheme != ECX_PER_GROUP || is_of_program(&filter->scales)),
    .text = copy};
  return copy || !t;
}

static bool name_node(ecx_cache *cache, const ecx_graph *g, const ecx_node *n) {
  if (n->is_dead || n->kind->product == ECX_PRODUCT_NONE || !ecx_in(g, n, 1)->data.at) return true;
  const ecx_value *filter = ecx_in(g, n, 1), *bias = n->kind->inputs > 2 ? ecx_in(g, n, 2) : NULL;
  description t, *named = describe_packing(g, n, &t) ? &t : NULL;
  if (!add_name(cache, filter, bias ? bias->data.at : NULL, named)) return false;
  /* XNNPACK packs it with the bias, but looks it up without one for some kinds of weights. */
  const bool is_dynamic = ecx_in(g, n, 0)->scheme == ECX_PER_TOKEN;
  return !bias || !is_dynamic || add_name(cache, filter, NULL, named);
}

/* ---- callbacks of XNNPACK -------------------------------------------------------------------- */

static block *find_block(const ecx_cache *cache, const char *text, uint32_t seed) {
  for (block *b = cache->pool->blocks; b; b = b->next)
    if (b->seed == seed && strcmp(b->text, text) == 0) return b;
  return NULL;
}

/* Adds a block of the pool to this delegate's. A block that it already has (because it packed it,
 * or has a second runtime) counts once. */
static bool use_block(ecx_cache *cache, block *b) {
  for (size_t i = 0; i < cache->used_count; i++)
    if (cache->used[i] == b) return true;
  if (cache->used_count == cache->used_room) return false;
  cache->used[cache->used_count++] = b;
  cache->figures.packed_bytes += b->size;
  cache->figures.shared_bytes += b->size;
  cache->figures.hits++;
  b->users++;
  return true;
}

static size_t look_up(void *context, const struct xnn_weights_cache_look_up_key *key) {
  ecx_cache *cache = context;
  const name *known = find_name(cache, key->kernel, key->bias);
  block *b = known && known->text ? find_block(cache, known->text, key->seed) : NULL;
  return b && use_block(cache, b) ? (size_t)(uintptr_t)b->data : SIZE_MAX;
}

static void *alloc_locked(const ecx_cache *cache, size_t size) {
  return cache->host->charge(size) ? calloc(1, size) : NULL;
}

/* Adds a block to this delegate's own ones. */
static block *add_block(ecx_cache *cache, size_t size, bool is_deferred) {
  pool *p = cache->pool;
  block *b = size <= SIZE_MAX / 2 ? alloc_locked(cache, sizeof *b) : NULL;
  void *data = !b ? NULL
               : is_deferred ? ecx_slab_reserve(&p->deferred, size + ECX_EXTRA)
                             : ecx_slab_alloc(&p->slabs, size + ECX_EXTRA);
  if (!data) {
    free(b);
    return NULL;
  }
  *b = (block){.next = cache->own, .data = data, .size = size, .users = 1};
  cache->own = b;
  cache->figures.packed_bytes += size;
  cache->figures.misses++;
  p->packed += size;
  p->is_settled = p->packed < MIN_HUGE_BYTES;
  return b;
}

static void *reserve_space(void *context, size_t size) {
  block *b = add_block(context, size, false);
  return b ? b->data : NULL;
}

static block **find_own(ecx_cache *cache, const void *data) {
  block **at = &cache->own;
  while (*at && (*at)->data != data) at = &(*at)->next;
  return at;
}

/* Moves a newly packed block to the pool. */
static void share_block(ecx_cache *cache, block **at, char *text, uint32_t seed) {
  block *b = *at;
  if (cache->used_count == cache->used_room) return;
  *at = b->next;
  b->next = cache->pool->blocks;
  b->text = text;
  b->seed = seed;
  cache->pool->blocks = b;
  cache->used[cache->used_count++] = b;
}

/* Releases some pieces of the packed filters. */
static void release_pieces(void *user, size_t begin, size_t end) {
  const ecx_cache *cache = user;
  const size_t before = (uintptr_t)cache->done % PIECE, all = before + cache->done_bytes;
  const size_t first = begin ? begin * PIECE : before;
  const size_t last = end * PIECE < all ? end * PIECE : all;
  cache->host->release_pages(cache->call->call, cache->done + (first - before), last - first);
}

/* Releases the pages of packed filters, on all threads: one of them takes 15 ms for a model of
 * 437 MB while the others wait. */
static void release_done(ecx_cache *cache) {
  const size_t pieces = ((uintptr_t)cache->done % PIECE + cache->done_bytes + PIECE - 1) / PIECE;
  if (cache->done_bytes)
    cache->host->parallel_for(cache->call->call, pieces, 1, release_pieces, cache);
  cache->done_bytes = 0;
}

/* Releases adjacent data together: a call for each small filter would take longer than packing
 * it. */
static void release_data(ecx_cache *cache, const char *filter, size_t bytes) {
  const uintptr_t at = (uintptr_t)filter, done = (uintptr_t)cache->done;
  if (cache->done_bytes && at >= done && at - done - cache->done_bytes <= GAP) {
    cache->done_bytes = at - done + bytes;
  } else if (cache->done_bytes && at < done && done - at - bytes <= GAP) {
    cache->done_bytes += done - at;
    cache->done = filter;
  } else {
    release_done(cache);
    cache->done = filter;
    cache->done_bytes = bytes;
  }
  if (cache->done_bytes >= RELEASE_BYTES) release_done(cache);
}

/* Releases a packed filter, and its scales of groups. */
static void release_filter(ecx_cache *cache, const name *packed) {
  release_data(cache, packed->filter, packed->filter_bytes);
  if (packed->scale_bytes) release_data(cache, packed->scales, packed->scale_bytes);
}

static size_t look_up_or_insert(void *context, const struct xnn_weights_cache_look_up_key *key,
                                void *data, size_t size) {
  ecx_cache *cache = context;
  block **at = find_own(cache, data);
  name *known = find_name(cache, key->kernel, key->bias);
  const bool is_waiting = *at && (*at)->is_waiting;
  if (known && !is_waiting) release_filter(cache, known);
  block *other = known && known->text ? find_block(cache, known->text, key->seed) : NULL;
  if (!data) return other ? (size_t)(uintptr_t)other->data : SIZE_MAX; /* look_up has found it */
  if (!*at || !known || !known->text) return (size_t)(uintptr_t)data;
  if (!other) {
    size_t length = strlen(known->text) + 1;
    char *text = alloc_locked(cache, length);
    if (!text) return (size_t)(uintptr_t)data;
    memcpy(text, known->text, length);
    share_block(cache, at, text, key->seed);
    return (size_t)(uintptr_t)data;
  }
  if (is_waiting || other->is_waiting || other->size != size ||
      memcmp(other->data, data, size) != 0 || !use_block(cache, other))
    return (size_t)(uintptr_t)data;
  block *mine = *at; /* redundantly packed: some operators look up afterwards */
  *at = mine->next;
  cache->figures.packed_bytes -= mine->size;
  cache->figures.misses--;
  ecx_slab_free(&cache->pool->slabs, mine->data, mine->size + ECX_EXTRA);
  free(mine);
  return (size_t)(uintptr_t)other->data;
}

static bool is_finalized(void *context) {
  (void)context;
  return true;
}

static void *offset_to_addr(void *context, size_t offset) {
  (void)context;
  return (void *)(uintptr_t)offset;
}

static enum xnn_status delete_cache(void *context) {
  (void)context;
  return xnn_status_success;
}

/* ---- deferred weights ------------------------------------------------------------------------ */

#ifdef EXECUTORCH_C_SPEED

/* Reserves memory for weights that a product packs later: only those whose filter lives as long as
 * any delegate that may share them. */
static void *defer(void *context, const struct xnn_weights_cache_look_up_key *key, size_t size,
                   size_t state_bytes, void **packed) {
  ecx_cache *cache = context;
  const name *known = find_name(cache, key->kernel, key->bias);
  if (!known || !known->text || !known->is_of_program) return NULL;
  void *state = alloc_locked(cache, state_bytes);
  block *b = state ? add_block(cache, size, true) : NULL;
  if (!b) {
    free(state);
    return NULL;
  }
  b->state = state;
  b->is_waiting = true;
  cache->pool->waiting++;
  *packed = b->data;
  return state;
}

static block *find_deferred(const ecx_cache *cache, const void *packed) {
  for (size_t i = 0; i < cache->used_count; i++)
    if (cache->used[i]->data == packed) return cache->used[i];
  for (block *b = cache->own; b; b = b->next)
    if (b->data == packed) return b;
  return NULL;
}

static void *find_state(void *context, const void *packed) {
  const block *b = find_deferred(context, packed);
  return b ? b->state : NULL;
}

static void *borrow(void *context, size_t bytes) {
  ecx_cache *cache = context;
  pthread_mutex_lock(&cache->pool->lock);
  cache->lent = cache->pool->spare;
  cache->pool->spare = (ecx_buffer){0};
  pthread_mutex_unlock(&cache->pool->lock);
  return ecx_buffer_grow(cache->host, &cache->lent, bytes) ? cache->lent.at : NULL;
}

static void give_back(void *context) {
  ecx_cache *cache = context;
  pool *p = cache->pool;
  pthread_mutex_lock(&p->lock);
  if (p->waiting && !p->spare.at) {
    p->spare = cache->lent;
    cache->lent = (ecx_buffer){0};
  }
  pthread_mutex_unlock(&p->lock);
  ecx_buffer_close(cache->host, &cache->lent);
}

static void begin_packing(void *context, const void *packed) {
  const ecx_cache *cache = context;
  pthread_mutex_lock(&cache->pool->lock);
  ecx_slab_prepare(cache->pool->deferred, packed);
  pthread_mutex_unlock(&cache->pool->lock);
}

static void release_part(void *context, const void *filter, size_t bytes) {
  const ecx_cache *cache = context;
  cache->host->release_pages(cache->call->call, filter, bytes);
}

static void end_packing(void *context, const void *packed) {
  ecx_cache *cache = context;
  pool *p = cache->pool;
  pthread_mutex_lock(&p->lock);
  find_deferred(cache, packed)->is_waiting = false;
  if (--p->waiting == 0) ecx_buffer_close(cache->host, &p->spare);
  pthread_mutex_unlock(&p->lock);
}

static const struct ecx_deferral deferral = {defer,         find_state,   borrow,     give_back,
                                             begin_packing, release_part, end_packing};

#endif

/* ---- opening and closing --------------------------------------------------------------------- */

static pool *pool_open(const void *program) {
  pthread_mutex_lock(&pools_lock);
  pool *p = pools;
  while (p && p->program != program) p = p->next;
  if (p) {
    p->users++;
  } else if ((p = calloc(1, sizeof *p))) {
    *p = (pool){.next = pools, .program = program, .users = 1, .is_settled = true};
    pthread_mutex_init(&p->lock, NULL);
    pools = p;
  }
  pthread_mutex_unlock(&pools_lock);
  return p;
}

/* Closes the pool. Its blocks were freed with their users. */
static void pool_close(const ec_host *host, pool *p) {
  pthread_mutex_lock(&pools_lock);
  bool last = --p->users == 0;
  pool **at = &pools;
  while (last && *at != p) at = &(*at)->next;
  if (last) *at = p->next;
  pthread_mutex_unlock(&pools_lock);
  if (!last) return;
  ecx_buffer_close(host, &p->spare);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

static void free_block(const ecx_cache *cache, block *b) {
  pool *p = cache->pool;
  ecx_slab_free(b->state ? &p->deferred : &p->slabs, b->data, b->size + ECX_EXTRA);
  if (b->is_waiting) p->waiting--;
  free(b->state);
  free(b->text);
  free(b);
}

/* Releases this delegate's references to the pool, and its own blocks. */
static void release_blocks(ecx_cache *cache) {
  pthread_mutex_lock(&cache->pool->lock);
  for (size_t i = 0; i < cache->used_count; i++) cache->used[i]->users--;
  for (block **at = &cache->pool->blocks; *at;) {
    block *b = *at;
    if (b->users) {
      at = &b->next;
      continue;
    }
    *at = b->next;
    free_block(cache, b);
  }
  while (cache->own) {
    block *b = cache->own;
    cache->own = b->next;
    free_block(cache, b);
  }
  pthread_mutex_unlock(&cache->pool->lock);
}

void ecx_cache_close(ecx_cache *cache) {
  const ec_host *host = cache->host;
  if (cache->pool) {
    release_blocks(cache);
    pool_close(host, cache->pool);
  }
  for (size_t i = 0; i < cache->name_count; i++)
    if (cache->names[i].text) host->free(cache->names[i].text);
  if (cache->names) host->free(cache->names);
  if (cache->used) host->free(cache->used);
  host->free(cache);
}

static bool fill_cache(ecx_cache *cache, const ecx_graph *graph, const void *program) {
  cache->used_room = 2 * (size_t)graph->node_count;
  cache->names = cache->host->alloc(2 * (size_t)graph->node_count * sizeof *cache->names);
  cache->used = cache->host->alloc(cache->used_room * sizeof *cache->used);
  cache->pool = pool_open(program);
  if (!cache->names || !cache->used || !cache->pool) return false;
  for (uint32_t i = 0; i < graph->node_count; i++)
    if (!name_node(cache, graph, &graph->nodes[i])) return false;
  return true;
}

uint32_t ecx_cache_open(const ecx_call *c, const ecx_graph *graph, const void *program,
                        ecx_cache **out) {
  ecx_cache *cache = c->host->alloc(sizeof *cache);
  if (cache) {
    cache->host = c->host;
    cache->provider = (struct xnn_weights_cache_provider){
      cache,        look_up,        reserve_space, look_up_or_insert,
      is_finalized, offset_to_addr, delete_cache,
#ifdef EXECUTORCH_C_SPEED /* not in an XNNPACK from XNNPACK_ROOT */
      &deferral
#endif
    };
    if (fill_cache(cache, graph, program)) {
      *out = cache;
      return EC_BACKEND_OK;
    }
    ecx_cache_close(cache);
  }
  return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a cache of weights");
}

xnn_weights_cache_t ecx_cache_enter(const ecx_call *c, ecx_cache *cache) {
  pthread_mutex_lock(&cache->pool->lock);
  cache->call = c;
  return &cache->provider;
}

void ecx_cache_leave(ecx_cache *cache) {
  release_done(cache);
  pthread_mutex_unlock(&cache->pool->lock);
}

void ecx_cache_use(ecx_cache *cache, const ecx_call *c) { cache->call = c; }

void ecx_cache_trim(ecx_cache *cache) {
  pthread_mutex_lock(&cache->pool->lock);
  ecx_slabs_trim(cache->pool->slabs);
  ecx_slabs_trim(cache->pool->deferred);
  pthread_mutex_unlock(&cache->pool->lock);
}

bool ecx_cache_is_settled(const ecx_cache *cache) { return cache->pool->is_settled; }

void ecx_cache_settle(ecx_cache *cache, uint64_t elapsed) {
  pool *p = cache->pool;
  pthread_mutex_lock(&p->lock);
  if (!p->waiting) {
    p->credit += elapsed / SHARE;
    if (!p->is_settled)
      p->is_settled = !ecx_slabs_collapse(p->slabs, &p->credit) &&
                      !ecx_slabs_collapse(p->deferred, &p->credit);
  }
  pthread_mutex_unlock(&p->lock);
}

ecx_cache_figures ecx_cache_report(const ecx_cache *cache) { return cache->figures; }

/* ---- forks ----------------------------------------------------------------------------------- */

void ecx_caches_hold(void) {
  pthread_mutex_lock(&pools_lock);
  for (pool *p = pools; p; p = p->next) pthread_mutex_lock(&p->lock);
}

void ecx_caches_free(void) {
  for (pool *p = pools; p; p = p->next) pthread_mutex_unlock(&p->lock);
  pthread_mutex_unlock(&pools_lock);
}
