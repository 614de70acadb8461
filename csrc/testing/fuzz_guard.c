/* Replacement of posix_memalign whose blocks end at an inaccessible page. XNNPACK, which has no
 * sanitizer, writes packed weights and workspaces to them (backends/xnnpack/run/memory.c). Linked
 * with --wrap, so that no source knows of it. A block's end is exact up to its alignment. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAX_BLOCKS = 1024 };

typedef struct block {
  void *at; /* NULL: the row is free */
  void *pages;
  size_t bytes;
} block;

static block blocks[MAX_BLOCKS];
static size_t count; /* rows used so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int __real_posix_memalign(void **out, size_t align, size_t size);
void __real_free(void *at);
int __wrap_posix_memalign(void **out, size_t align, size_t size);
void __wrap_free(void *at);

/* Returns the row of an address (NULL: a free one), or NULL. */
static block *find(const void *at) {
  for (size_t i = 0; i < count; i++)
    if (blocks[i].at == at) return &blocks[i];
  return at || count == MAX_BLOCKS ? NULL : &blocks[count++];
}

static int guard(block *b, void **out, size_t align, size_t size) {
  const size_t whole = (size + PAGE - 1) / PAGE * PAGE, used = (size + align - 1) / align * align;
  const int rights = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
  char *pages = mmap(NULL, whole + PAGE, rights, kind, -1, 0);
  if (pages == MAP_FAILED) return 12; /* ENOMEM */
  (void)mprotect(pages + whole, PAGE, PROT_NONE);
  *b = (block){pages + whole - used, pages, whole + PAGE};
  *out = b->at;
  return 0;
}

int __wrap_posix_memalign(void **out, size_t align, size_t size) {
  pthread_mutex_lock(&lock);
  block *b = size && align <= PAGE && size < SIZE_MAX / 2 ? find(NULL) : NULL;
  const int status = b ? guard(b, out, align, size) : __real_posix_memalign(out, align, size);
  pthread_mutex_unlock(&lock);
  return status;
}

void __wrap_free(void *at) {
  if (!at) return;
  pthread_mutex_lock(&lock);
  block *b = (uintptr_t)at % 16 == 0 ? find(at) : NULL;
  if (b) {
    munmap(b->pages, b->bytes);
    b->at = NULL;
  }
  pthread_mutex_unlock(&lock);
  if (!b) __real_free(at);
}
