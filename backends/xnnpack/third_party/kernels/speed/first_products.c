/* Products with weights that are not packed yet (deferred.h). Each thread takes groups of
 * tiles and multiplies all rows by them. Methods that share weights may multiply at the same time:
 * one product packs them, and until they are packed the others read the filter, whose released
 * pages come back from the file. In a process forked meanwhile they stay unpacked, which is correct
 * and slower. Without memory for the threads' tiles, a product packs at once. */
#include "executorch_c/speed/deferred.h"
#include "executorch_c/speed/ecx.h"
#include "xnnpack/cache.h"
#include "xnnpack/compute.h"
#include "xnnpack/math.h"

enum {
  ECX_TAKEN = 1 << 18,  /* bytes of packed weights that a thread takes at once */
  ECX_APART = 1 << 14,  /* bytes between the tiles of threads: kernels ask for weights ahead */
  ECX_RELEASED = 1 << 22 /* bytes of a filter: each release interrupts the other threads */
};

struct ecx_product {
  const struct gemm_context* gemm;
  struct ecx_deferred* deferred;
  size_t rows, group; /* channels that are taken at once */
  size_t next;        /* atomic: the first channel that is not taken */
  char* tiles;        /* one of each thread; NULL: each has its place */
};

static void ecx_multiply_tile(const struct ecx_product* product, size_t first, size_t channels,
                              const char* weights) {
  const struct gemm_context* gemm = product->gemm;
  for (size_t row = 0; row < product->rows; row += gemm->mr) {
    const size_t rows = min(gemm->mr, product->rows - row);
    const void* a = (const void*) ((uintptr_t) gemm->a + row * gemm->a_stride);
    void* c = (void*) ((uintptr_t) gemm->c + row * gemm->cm_stride + (first << gemm->log2_csize));
    if (gemm->quantization_params != NULL)
      gemm->dq_ukernel.function[XNN_UARCH_DEFAULT](
          rows, channels, gemm->k_scaled, a, gemm->a_stride, weights, c, gemm->cm_stride,
          gemm->cn_stride, gemm->fused_params, &gemm->quantization_params[row]);
    else
      gemm->ukernel.function[XNN_UARCH_DEFAULT](rows, channels, gemm->k_scaled, a, gemm->a_stride,
                                                weights, c, gemm->cm_stride, gemm->cn_stride,
                                                gemm->fused_params);
  }
}

/* Releases the pages of the file with the channels [first, end). Threads that still read some of
 * them read them again. */
static void ecx_release(const struct ecx_product* product, size_t first, size_t end) {
  const struct ecx_deferred* deferred = product->deferred;
  const xnn_weights_cache_t cache = product->gemm->cache;
  const size_t from = first * deferred->row_bits / 8;
  cache->deferral->release(cache->context, deferred->filter + from,
                           end * deferred->row_bits / 8 - from);
  if (deferred->scales != NULL)
    cache->deferral->release(cache->context, deferred->scales + first * deferred->scale_bytes,
                             (end - first) * deferred->scale_bytes);
}

/* Packs and multiplies the channels of a group. */
static void ecx_multiply_group(const struct ecx_product* product, size_t thread, size_t first,
                               size_t end) {
  const struct ecx_deferred* deferred = product->deferred;
  for (; first < end; first += deferred->nr) {
    char* tile = product->tiles == NULL
                     ? deferred->packed + first / deferred->nr * deferred->tile_bytes
                     : product->tiles + thread * (deferred->tile_bytes + ECX_APART);
    const size_t channels = min(deferred->nr, end - first);
    if (product->tiles == NULL) ecx_populate(tile, deferred->tile_bytes);
    deferred->pack(deferred, first, channels, tile);
    ecx_multiply_tile(product, first, channels, tile);
  }
}

/* Releases those before the channels [first, end), which are packed, in large parts. */
static void ecx_release_parts(const struct ecx_product* product, size_t first, size_t end) {
  const size_t part = max(1, 8 * ECX_RELEASED / product->deferred->row_bits);
  if (first / part < end / part) ecx_release(product, first / part * part, end / part * part);
}

static void ecx_take_groups(struct ecx_product* product, size_t thread) {
  const struct ecx_deferred* deferred = product->deferred;
  for (;;) {
    const size_t first = __atomic_fetch_add(&product->next, product->group, __ATOMIC_RELAXED);
    if (first >= deferred->channels) return;
    const size_t end = min(first + product->group, deferred->channels);
    ecx_multiply_group(product, thread, first, end);
    if (product->tiles == NULL) ecx_release_parts(product, first, end);
  }
}

static bool ecx_takes(struct ecx_deferred* deferred) {
  return !__atomic_exchange_n(&deferred->is_taken, true, __ATOMIC_ACQ_REL);
}

/* Returns the memory of the threads' tiles; NULL: there is none. */
static char* ecx_borrow(const struct ecx_product* product, size_t threads) {
  const xnn_weights_cache_t cache = product->gemm->cache;
  const size_t each = product->deferred->tile_bytes + ECX_APART;
  const uintptr_t at = (uintptr_t) cache->deferral->borrow(
      cache->context, threads * each + XNN_ALLOCATION_ALIGNMENT);
  return at == 0 ? NULL : (char*) round_up_po2(at, XNN_ALLOCATION_ALIGNMENT);
}

enum xnn_status ecx_multiply_deferred(const struct gemm_context* gemm, size_t rows,
                                      pthreadpool_t pool, uint32_t flags) {
  struct ecx_deferred* deferred = gemm->deferred;
  const xnn_weights_cache_t cache = gemm->cache;
  const size_t threads = pthreadpool_get_threads_count(pool);
  const size_t shared = divide_round_up(deferred->channels, 4 * threads * deferred->nr);
  const size_t tiles = max(1, min(shared, ECX_TAKEN / deferred->tile_bytes));
  struct ecx_product product = {
    .gemm = gemm, .deferred = deferred, .rows = rows, .group = tiles * deferred->nr
  };
  bool packs = __atomic_fetch_add(&deferred->products, 1, __ATOMIC_RELAXED) >=
                   deferred->unpacked_products && ecx_takes(deferred);
  if (!packs) {
    product.tiles = ecx_borrow(&product, threads);
    packs = product.tiles == NULL && ecx_takes(deferred);
    if (product.tiles == NULL && !packs) return xnn_status_out_of_memory;
  }
  if (packs) cache->deferral->begin(cache->context, deferred->packed);
  pthreadpool_parallelize_1d(pool, (pthreadpool_task_1d_t) ecx_take_groups, &product, threads,
                             flags);
  if (!packs) {
    cache->deferral->give_back(cache->context);
    return xnn_status_success;
  }
  __atomic_store_n(&deferred->is_packed, true, __ATOMIC_RELEASE);
  ecx_release(&product, 0, deferred->channels); /* the parts' first and last pages, too */
  cache->deferral->end(cache->context, deferred->packed);
  return xnn_status_success;
}

bool ecx_is_deferred(const struct compute_parameters* compute, const void* context) {
  const pthreadpool_task_2d_tile_2d_t task = compute->task_2d_tile_2d;
  if (compute->type != xnn_parallelization_type_2d_tile_2d ||
      (task != (pthreadpool_task_2d_tile_2d_t) xnn_compute_gemm &&
       task != (pthreadpool_task_2d_tile_2d_t) xnn_compute_dqgemm))
    return false;
  const struct ecx_deferred* deferred = ((const struct gemm_context*) context)->deferred;
  return deferred != NULL && !__atomic_load_n(&deferred->is_packed, __ATOMIC_ACQUIRE);
}
