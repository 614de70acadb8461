/* Buffers for what XNNPACK reads and writes; its own memory: the C library's, counted. */
#include <stdlib.h>

#include "delegate.h"

bool ecx_buffer_grow(const ec_host *host, ecx_buffer *buffer, size_t bytes) {
  if (buffer->at && buffer->bytes >= bytes) return true;
  ecx_buffer_close(host, buffer);
  buffer->at = host->alloc(bytes + ECX_EXTRA);
  if (buffer->at) buffer->bytes = bytes;
  return buffer->at != NULL;
}

void ecx_buffer_close(const ec_host *host, ecx_buffer *buffer) {
  if (buffer->at) host->free(buffer->at);
  *buffer = (ecx_buffer){0};
}

static _Thread_local size_t allocated;

static void *allocate(void *context, size_t size) {
  (void)context;
  return malloc(size);
}

static void *reallocate(void *context, void *pointer, size_t size) {
  (void)context;
  return realloc(pointer, size);
}

static void deallocate(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

/* Packed weights and workspaces come from here. */
static void *aligned_allocate(void *context, size_t alignment, size_t size) {
  (void)context;
  void *block = NULL;
  if (posix_memalign(&block, alignment, size)) return NULL;
  allocated += size;
  return block;
}

const struct xnn_allocator ecx_allocator = {NULL,       allocate,         reallocate,
                                            deallocate, aligned_allocate, deallocate};

size_t ecx_allocated(void) {
  size_t bytes = allocated;
  allocated = 0;
  return bytes;
}
