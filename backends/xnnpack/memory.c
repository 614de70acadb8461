/* Buffers for what XNNPACK reads and writes; its own memory: the C library's, counted; pieces for
 * packed weights. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "delegate.h"

enum {
  ALIGN = 64,
  LARGE = 1 << 16, /* bytes from which it is worth a call of the system */
  MOST_AHEAD = 1 << 23 /* bytes of a piece that is larger than what is asked for */
};

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

/* Asks for all pages of a block at once, which takes half the time of one by one, as they are
 * written to. Not for huge ones: where memory is in pieces or the machine is a virtual one, the
 * first access to one of them takes milliseconds, and loads and first calls are made of those. */
static void *populated(void *block, size_t size) {
#ifdef MADV_POPULATE_WRITE
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)block;
  const uintptr_t first = (at + page - 1) / page * page, end = (at + size) / page * page;
  if (block && size >= LARGE && first < end)
    (void)madvise((void *)first, end - first, MADV_POPULATE_WRITE);
#else
  (void)size;
#endif
  return block;
}

/* Of the C library. */
static void *alloc_aligned(size_t alignment, size_t size) {
  void *block = NULL;
  return posix_memalign(&block, alignment, size) ? NULL : block;
}

static _Thread_local size_t allocated;

static void *allocate(void *context, size_t size) {
  (void)context;
  return populated(malloc(size), size);
}

static void *reallocate(void *context, void *pointer, size_t size) {
  (void)context;
  return populated(realloc(pointer, size), size);
}

static void deallocate(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

/* Packed weights and workspaces come from here. */
static void *aligned_allocate(void *context, size_t alignment, size_t size) {
  (void)context;
  void *block = populated(alloc_aligned(alignment, size), size);
  if (block) allocated += size;
  return block;
}

const struct xnn_allocator ecx_allocator = {NULL,       allocate,         reallocate,
                                            deallocate, aligned_allocate, deallocate};

size_t ecx_allocated(void) {
  size_t bytes = allocated;
  allocated = 0;
  return bytes;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct ecx_piece {
  ecx_piece *next;
  char *at;
  size_t size, used, blocks;
  size_t trimmed; /* `used` when the rest was given back */
};

/* As large as all before it, so that there are few; what is not used of it is not touched. */
static ecx_piece *add_piece(ecx_piece **pieces, size_t least) {
  size_t size = 0;
  for (const ecx_piece *p = *pieces; p && size < MOST_AHEAD; p = p->next) size += p->size;
  if (size > MOST_AHEAD) size = MOST_AHEAD;
  if (size < least) size = least;
  ecx_piece *piece = calloc(1, sizeof *piece);
  char *at = piece ? alloc_aligned(ALIGN, size) : NULL;
  if (!at) {
    free(piece);
    return NULL;
  }
  *piece = (ecx_piece){.next = *pieces, .at = at, .size = size};
  return *pieces = piece;
}

static size_t taken(size_t size) { return (size + ALIGN - 1) / ALIGN * ALIGN; }

void *ecx_pieces_take(ecx_piece **pieces, size_t size) {
  if (size > SIZE_MAX / 2) return NULL;
  size = taken(size);
  ecx_piece *p = *pieces;
  if ((!p || p->size - p->used < size) && !(p = add_piece(pieces, size))) return NULL;
  char *block = p->at + p->used;
  p->used += size;
  p->blocks++;
  return populated(block, size);
}

void ecx_pieces_give(ecx_piece **pieces, const void *block, size_t size) {
  const uintptr_t at = (uintptr_t)block;
  while (at - (uintptr_t)(*pieces)->at >= (*pieces)->size) pieces = &(*pieces)->next;
  ecx_piece *p = *pieces;
  if (at - (uintptr_t)p->at == p->used - taken(size)) p->used -= taken(size);
  if (--p->blocks) return;
  *pieces = p->next;
  free(p->at);
  free(p);
}

void ecx_pieces_trim(ecx_piece *pieces) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (ecx_piece *p = pieces; p; p = p->next) {
    const uintptr_t at = (uintptr_t)p->at;
    const uintptr_t first = (at + p->used + page - 1) / page * page;
    const uintptr_t last = (at + p->size) / page * page;
    if (p->trimmed != p->used && first < last)
      (void)madvise((void *)first, last - first, MADV_DONTNEED);
    p->trimmed = p->used;
  }
}
