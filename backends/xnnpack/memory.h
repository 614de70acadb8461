/* Memory that XNNPACK reads and writes: buffers of arguments, its allocator, slabs of packed
 * weights. */
#ifndef ECX_MEMORY_H
#define ECX_MEMORY_H

#include "call.h"

typedef struct ecx_buffer {
  void *at; /* NULL: there is none yet */
  size_t bytes;
} ecx_buffer;

/* Makes a buffer at least `bytes` large, with ECX_EXTRA after its end; its contents are lost. */
bool ecx_buffer_grow(const ec_host *host, ecx_buffer *buffer, size_t bytes);
void ecx_buffer_close(const ec_host *host, ecx_buffer *buffer);

/* XNNPACK's allocator. Bytes of large blocks that this thread has allocated since the
 * last call, so that packed weights and workspaces can be reported. */
extern const struct xnn_allocator ecx_allocator;
size_t ecx_allocated(void);


/* Memory of packed weights, block behind block in slabs that are large enough for huge pages; a
 * slab goes with the last of its blocks. NULL: there is none yet. */
typedef struct ecx_slab ecx_slab;
void *ecx_slab_alloc(ecx_slab **slabs, size_t size); /* 64-byte aligned; NULL: no memory */
void ecx_slab_free(ecx_slab **slabs, const void *block, size_t size); /* as it was taken */
void ecx_slabs_trim(ecx_slab *slabs); /* the rests of huge pages go back to the system */

#endif
