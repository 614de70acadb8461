/* Buffers that XNNPACK reads and writes; its allocator: the C library's, with counts; slabs for
 * packed weights. */
#include "run/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "call.h"

#if defined __linux__ && !defined MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; earlier ones refuse it */
#endif

enum {
  ALIGN = 64,
  LARGE = 1 << 16, /* minimum bytes for a system call */
  MAX_AHEAD_BYTES = 1 << 24, /* maximum bytes of a slab beyond the request */
  HUGE_BYTES = 1 << 21, /* of a huge page */
  MIN_PROBED_BYTES = 1 << 24, /* of a slab whose load is not much longer by a slow huge page */
  PROBED = 1 << 25, /* bytes that get huge pages if the first of them is fast */
  SLOW = 1000000, /* ns */
  POPULATED = 1 << 28 /* maximum block to populate: payloads may declare more than they use */
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

/* Populates all pages of a block at once, in half the time of individual page faults. Skips huge
 * blocks: on virtual machines and with memory in slabs, the first access to a huge page takes
 * milliseconds, and loading consists of such accesses. */
static void *populate(void *block, size_t size) {
#ifdef MADV_POPULATE_WRITE
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)block;
  const uintptr_t first = (at + page - 1) / page * page, end = (at + size) / page * page;
  if (block && size >= LARGE && size <= POPULATED && first < end)
    (void)madvise((void *)first, end - first, MADV_POPULATE_WRITE);
#else
  (void)size;
#endif
  return block;
}

/* XNNPACK has one allocator in a process, and all methods have the same host. */
static _Atomic(const ec_host *) charged;

/* Freed blocks are not credited: XNNPACK frees few during a load or call. */
static bool charge(size_t size) {
  const ec_host *host = charged;
  return !host || host->charge(size);
}

/* Allocates from the C library. */
static void *alloc_aligned(size_t alignment, size_t size) {
  void *block = NULL;
  return !charge(size) || posix_memalign(&block, alignment, size) ? NULL : block;
}

static _Thread_local size_t allocated;

/* New blocks of this thread are filled in part. */
static _Thread_local bool is_sparse;

static void *c_malloc(void *context, size_t size) {
  (void)context;
  return charge(size) ? populate(malloc(size), size) : NULL;
}

static void *c_realloc(void *context, void *pointer, size_t size) {
  (void)context;
  return charge(size) ? populate(realloc(pointer, size), size) : NULL;
}

static void c_free(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

/* Allocates packed weights and workspaces. */
static void *aligned_allocate(void *context, size_t alignment, size_t size) {
  (void)context;
  void *block = alloc_aligned(alignment, size);
  if (!is_sparse) (void)populate(block, size);
  if (block) allocated += size;
  return block;
}

enum xnn_status ecx_memory_init(const ec_host *host) {
  static const struct xnn_allocator allocator = {NULL,   c_malloc,         c_realloc,
                                                 c_free, aligned_allocate, c_free};
  charged = host;
  return xnn_initialize(&allocator);
}

void ecx_memory_set_sparse(bool sparse) { is_sparse = sparse; }

size_t ecx_allocated(void) {
  size_t bytes = allocated;
  allocated = 0;
  return bytes;
}

struct ecx_slab {
  ecx_slab *next;
  char *at;
  size_t size, used, blocks;
  size_t trimmed; /* `used` at the last trim */
  size_t huge;    /* bytes that are in huge pages, or cannot be */
  bool has_asked; /* for huge pages */
};

/* ---- huge pages ------------------------------------------------------------------------------ */

uint64_t ecx_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The time of the last huge page: 0.1 to 0.4 ms, but 4 to 16 on a virtual machine whose host has
 * to find the memory. */
static _Atomic uint64_t huge_page_time;

/* Asks for huge pages for new memory, until one is slow. */
static void ask_for_huge_pages(char *at, size_t size) {
#if defined MADV_HUGEPAGE && defined MADV_POPULATE_WRITE
  if (size < MIN_PROBED_BYTES || size > POPULATED) return;
  while (size >= HUGE_BYTES && huge_page_time <= SLOW) {
    const size_t part = size < PROBED ? size : PROBED;
    const uint64_t start = ecx_now();
    if (madvise(at, HUGE_BYTES, MADV_HUGEPAGE) != 0) return;
    (void)madvise(at, HUGE_BYTES, MADV_POPULATE_WRITE);
    huge_page_time = ecx_now() - start;
    if (huge_page_time <= SLOW) (void)madvise(at, part, MADV_HUGEPAGE);
    at += part;
    size -= part;
  }
#else
  (void)at;
  (void)size;
#endif
}

/* Copies the next part of a slab to a huge page. */
static void collapse(ecx_slab *p) {
#ifdef MADV_COLLAPSE
  const uint64_t start = ecx_now();
  (void)madvise(p->at + p->huge, HUGE_BYTES, MADV_COLLAPSE); /* a failure changes nothing */
  huge_page_time = ecx_now() - start;
#endif
  p->huge += HUGE_BYTES;
}

bool ecx_slabs_collapse(ecx_slab *slabs, uint64_t *credit) {
  for (ecx_slab *p = slabs; p; p = p->next)
    while (p->size >= HUGE_BYTES && p->huge + HUGE_BYTES <= p->used) {
      if (*credit < huge_page_time) return true;
      collapse(p);
      *credit = *credit > huge_page_time ? *credit - huge_page_time : 0;
    }
  return false;
}

/* ---- slabs ----------------------------------------------------------------------------------- */

/* Adds a slab as large as all previous ones, so that there are few; unused pages stay untouched. */
static ecx_slab *add_slab(ecx_slab **slabs, size_t least) {
  size_t size = 0;
  for (const ecx_slab *p = *slabs; p && size < MAX_AHEAD_BYTES; p = p->next) size += p->size;
  if (size > MAX_AHEAD_BYTES) size = MAX_AHEAD_BYTES;
  if (size < least) size = least;
  ecx_slab *slab = calloc(1, sizeof *slab);
  char *at = slab ? alloc_aligned(size < HUGE_BYTES ? ALIGN : HUGE_BYTES, size) : NULL;
  if (!at) {
    free(slab);
    return NULL;
  }
  *slab = (ecx_slab){.next = *slabs, .at = at, .size = size};
  ecx_slabs_trim(*slabs);
  return *slabs = slab;
}

static size_t round_up(size_t size) { return (size + ALIGN - 1) / ALIGN * ALIGN; }

/* Returns the place of a block's slab in the list. */
static ecx_slab **find_slab(ecx_slab **slabs, const void *block) {
  while ((uintptr_t)block - (uintptr_t)(*slabs)->at >= (*slabs)->size) slabs = &(*slabs)->next;
  return slabs;
}

static void ask_once(ecx_slab *slab) {
  if (!slab->has_asked) ask_for_huge_pages(slab->at, slab->size);
  slab->has_asked = true;
}

void *ecx_slab_reserve(ecx_slab **slabs, size_t size) {
  if (size > SIZE_MAX / 2) return NULL;
  size = round_up(size);
  ecx_slab *p = *slabs;
  if ((!p || p->size - p->used < size) && !(p = add_slab(slabs, size))) return NULL;
  char *block = p->at + p->used;
  p->used += size;
  p->blocks++;
  return block; /* XNNPACK populates its pages: third_party/kernels/speed/populate.c */
}

void *ecx_slab_alloc(ecx_slab **slabs, size_t size) {
  void *block = ecx_slab_reserve(slabs, size);
  if (block) ask_once(*slabs);
  return block;
}

void ecx_slab_prepare(ecx_slab *slabs, const void *block) { ask_once(*find_slab(&slabs, block)); }

void ecx_slab_free(ecx_slab **slabs, const void *block, size_t size) {
  slabs = find_slab(slabs, block);
  ecx_slab *p = *slabs;
  if ((uintptr_t)block - (uintptr_t)p->at == p->used - round_up(size)) p->used -= round_up(size);
  if (--p->blocks) return;
  *slabs = p->next;
  free(p->at);
  free(p);
}

void ecx_slabs_trim(ecx_slab *slabs) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (ecx_slab *p = slabs; p; p = p->next) {
    const uintptr_t at = (uintptr_t)p->at;
    const uintptr_t first = (at + p->used + page - 1) / page * page;
    const uintptr_t last = (at + p->size) / page * page;
    if (p->trimmed != p->used && first < last)
      (void)madvise((void *)first, last - first, MADV_DONTNEED);
    p->trimmed = p->used;
  }
}
