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

_Static_assert(EC_ALIGN >= sizeof(header), "every block has room for it");

/* Returns a calloc'ed block with room for the header and the padding. One scheme serves every
 * alignment, and calloc keeps its lazy zero pages. */
static void *libc_alloc(void *user, size_t size, size_t align, int zeroed) {
  (void)user;
  size_t total;
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

enum {
  LARGE = 4 << 20,
  KEPT = 64 << 20, /* bytes of a block to clear in place; the rest returns its pages */
  BATCH = 512      /* pages asked for at once */
};

/* Drops pages of malloc, which are private and anonymous: they read as zeros afterwards. */
static bool drop_pages(char *first, size_t size) {
  return !size || madvise(first, size, MADV_DONTNEED) == 0;
}

/* Zeroes a page. One that was only read shares the kernel's zeros, and stays as it is. */
static void clear_page(char *page, size_t size) {
  uint64_t word = 0;
  for (size_t i = 0; i < size && !word; i += sizeof word) memcpy(&word, page + i, sizeof word);
  if (word) memset(page, 0, size);
}

/* Zeroes whole pages. To zero those in memory takes a third of the time of the page faults after
 * dropping them; others, which may be swapped out, are dropped. */
static bool clear_pages(char *at, const char *end, size_t page) {
  unsigned char present[BATCH];
  size_t kept = 0;
  while (at < end && kept < KEPT) {
    const size_t left = (size_t)(end - at) / page, count = left < BATCH ? left : BATCH;
    if (mincore(at, count * page, present) != 0) break;
    char *absent = at;
    for (size_t i = 0; i < count; i++, at += page) {
      if (!(present[i] & 1)) continue;
      if (!drop_pages(absent, (size_t)(at - absent))) return false;
      clear_page(at, page);
      kept += page;
      absent = at + page;
    }
    if (!drop_pages(absent, (size_t)(at - absent))) return false;
  }
  return drop_pages(at, (size_t)(end - at));
}

void ec_clear(void *block, size_t size) {
  char *from = block, *to = from + size;
  if (size >= LARGE && hook.alloc == libc_alloc) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *first = from + (~(uintptr_t)from + 1) % page, *last = to - (uintptr_t)to % page;
    if (clear_pages(first, last, page)) {
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
