/* Heap blocks. Large zeroed blocks come from mmap. The kernel's zero pages cost neither time nor
 * memory until they are written, so loading a program with a 1 GB arena takes microseconds. */
#include "core/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/budget.h"
#include "core/checked.h"

static void *libc_alloc(void *user, size_t size, size_t align, int zeroed);
static void libc_free(void *user, void *block);
static size_t libc_size(void *user, void *block);

const ec_alloc_hook ec_alloc_libc = {libc_alloc, libc_free, libc_size, NULL};
static ec_alloc_hook hook = {libc_alloc, libc_free, libc_size, NULL};

/* The header in front of each block. */
typedef struct header {
  void *raw; /* the address to free */
  size_t size;
} header;

/* Returns a calloc'ed block with room for the header and the padding. One scheme serves every
 * alignment, and calloc keeps its lazy zero pages. */
static void *libc_alloc(void *user, size_t size, size_t align, int zeroed) {
  (void)user;
  size_t total;
  if (align < sizeof(header)) align = sizeof(header);
  if (!ec_add_size(size, align + sizeof(header), &total) || total > PTRDIFF_MAX) return NULL;
  char *raw = zeroed ? calloc(1, total) : malloc(total);
  if (!raw) return NULL;
  uintptr_t at = ((uintptr_t)raw + sizeof(header) + align - 1) & ~(uintptr_t)(align - 1);
  char *block = raw + (at - (uintptr_t)raw);
  const header front = {raw, size};
  memcpy(block - sizeof front, &front, sizeof front);
  return block;
}

static header front_of(const void *block) {
  header front;
  memcpy(&front, (const char *)block - sizeof front, sizeof front);
  return front;
}

static void libc_free(void *user, void *block) {
  (void)user;
  free(front_of(block).raw);
}

static size_t libc_size(void *user, void *block) {
  (void)user;
  return front_of(block).size;
}

void ec_alloc_set_hook(const ec_alloc_hook *with) { hook = with ? *with : ec_alloc_libc; }

static void *request_block(size_t size, size_t align, int zeroed) {
  if (!ec_budget_charge(size)) return NULL;
  void *block = hook.alloc(hook.user, size, align, zeroed);
  if (!block) ec_budget_refund(size);
  return block;
}

void *ec_alloc(size_t size) { return request_block(size, EC_ALIGN, 0); }

void *ec_alloc_zeroed(size_t size) { return request_block(size, EC_ALIGN, 1); }

void *ec_alloc_aligned(size_t size, size_t align) {
  return request_block(size, align > EC_ALIGN ? align : EC_ALIGN, 1);
}

void *ec_alloc_array(size_t count, size_t size) {
  size_t total;
  return ec_mul_size(count, size, &total) ? ec_alloc_zeroed(total) : NULL;
}

/* Drops the whole pages inside a large block. malloc's pages are private and anonymous, so they
 * read as zeros afterwards. */
void ec_clear(void *block, size_t size) {
  enum { LARGE = 4 << 20 };
  char *from = block, *to = from + size;
  if (size >= LARGE && hook.alloc == libc_alloc) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *first = from + (~(uintptr_t)from + 1) % page, *last = to - (uintptr_t)to % page;
    if (madvise(first, (size_t)(last - first), MADV_DONTNEED) == 0) {
      memset(from, 0, (size_t)(first - from));
      from = last;
    }
  }
  if (size) memset(from, 0, (size_t)(to - from));
}

void ec_free(void *block) {
  if (!block) return;
  ec_budget_refund(hook.size(hook.user, block));
  hook.free(hook.user, block);
}
