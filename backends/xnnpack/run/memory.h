/* Memory that XNNPACK reads and writes: buffers of arguments, its allocator, slabs of packed
 * weights. */
#ifndef ECX_RUN_MEMORY_H
#define ECX_RUN_MEMORY_H

#include "call.h"

typedef struct ecx_buffer {
  void *at; /* NULL: not allocated */
  size_t bytes;
} ecx_buffer;

/* Grows a buffer to at least `bytes`, with ECX_EXTRA after its end. Its contents are lost. */
bool ecx_buffer_grow(const ec_host *host, ecx_buffer *buffer, size_t bytes);
void ecx_buffer_close(const ec_host *host, ecx_buffer *buffer);

/* Initializes XNNPACK, once per process, with an allocator that charges its memory to the load or
 * call of the thread. */
enum xnn_status ecx_memory_init(const ec_host *host);

/* Says whether the next calls of this thread fill new blocks in part, so that their pages are not
 * populated at once. */
void ecx_memory_set_sparse(bool sparse);

/* Bytes of large blocks that this thread has allocated since the
 * last call, so that packed weights and workspaces can be reported. */
size_t ecx_allocated(void);

/* Memory of packed weights: consecutive blocks in slabs that are large enough for huge pages. A
 * slab is freed with the last of its blocks. NULL: no slab. */
typedef struct ecx_slab ecx_slab;
void *ecx_slab_alloc(ecx_slab **slabs, size_t size); /* 64-byte aligned; NULL: no memory */
/* Likewise, for blocks that are filled later. Before that, the slab of one asks for its pages. */
void *ecx_slab_reserve(ecx_slab **slabs, size_t size);
void ecx_slab_prepare(ecx_slab *slabs, const void *block);
void ecx_slab_free(ecx_slab **slabs, const void *block, size_t size); /* `size` as allocated */
void ecx_slabs_trim(ecx_slab *slabs); /* returns unused parts of huge pages to the system */

/* Copies packed weights to huge pages, one by one, while `credit`, in ns, covers the time of the
 * last one, and subtracts their times. False: nothing is left to copy. */
bool ecx_slabs_collapse(ecx_slab *slabs, uint64_t *credit);

/* The time in ns. */
uint64_t ecx_now(void);

#endif
