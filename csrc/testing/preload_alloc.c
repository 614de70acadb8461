/* Preloaded into a Python process (LD_PRELOAD): counts the blocks that chosen libraries allocate
 * from the C library, refuses the n-th request, and tracks living blocks.
 * tests/runtime/test_without_memory.py drives it with ctypes. Requests of other libraries pass
 * through. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIBRARIES = 8, SLOTS = 1 << 18 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

static struct library {
  uintptr_t begin, end;
} libraries[LIBRARIES];
static size_t library_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool counting;
static size_t requests, refused, fail_at;
static bool onwards;
static void *slots[SLOTS]; /* living blocks, hashed; all are counted */
static size_t alive;

static bool is_chosen(const void *caller) {
  const uintptr_t at = (uintptr_t)caller;
  for (size_t i = 0; i < library_count; i++)
    if (at - libraries[i].begin < libraries[i].end - libraries[i].begin) return true;
  return false;
}

static bool refuses(const void *caller) {
  if (!counting || !is_chosen(caller)) return false;
  pthread_mutex_lock(&lock);
  const size_t number = ++requests;
  const bool no = fail_at && (number == fail_at || (onwards && number > fail_at));
  refused += no;
  pthread_mutex_unlock(&lock);
  return no;
}

static size_t slot_of(const void *block) { return ((uintptr_t)block >> 4) * 0x9e3779b1u % SLOTS; }

static void *keep(void *block, const void *caller) {
  if (!block || !counting || !is_chosen(caller)) return block;
  pthread_mutex_lock(&lock);
  size_t i = slot_of(block);
  while (slots[i]) i = (i + 1) % SLOTS;
  slots[i] = block;
  alive++;
  pthread_mutex_unlock(&lock);
  return block;
}

/* Empties slot i, and moves later blocks of its probe sequence forward. */
static void empty_slot(size_t i) {
  for (size_t k = (i + 1) % SLOTS; slots[k]; k = (k + 1) % SLOTS) {
    if ((k - slot_of(slots[k])) % SLOTS < (k - i) % SLOTS) continue;
    slots[i] = slots[k];
    i = k;
  }
  slots[i] = NULL;
  alive--;
}

static void forget(const void *block) {
  if (!block || !library_count) return;
  pthread_mutex_lock(&lock);
  size_t i = slot_of(block);
  while (slots[i] && slots[i] != block) i = (i + 1) % SLOTS;
  if (slots[i]) empty_slot(i);
  pthread_mutex_unlock(&lock);
}

void *malloc(size_t size) {
  const void *caller = __builtin_return_address(0);
  return refuses(caller) ? NULL : keep(__libc_malloc(size), caller);
}

void *calloc(size_t count, size_t size) {
  const void *caller = __builtin_return_address(0);
  return refuses(caller) ? NULL : keep(__libc_calloc(count, size), caller);
}

void *realloc(void *block, size_t size) {
  const void *caller = __builtin_return_address(0);
  if (refuses(caller)) return NULL;
  forget(block); /* before another thread can get the same address */
  void *moved = __libc_realloc(block, size);
  keep(moved ? moved : block, caller);
  return moved;
}

int posix_memalign(void **out, size_t align, size_t size) {
  const void *caller = __builtin_return_address(0);
  void *block = refuses(caller) ? NULL : keep(__libc_memalign(align, size), caller);
  if (!block) return ENOMEM;
  *out = block;
  return 0;
}

void free(void *block) {
  forget(block);
  __libc_free(block);
}

/* ---- for ctypes ------------------------------------------------------------------------------ */

/* Adds a library by the addresses of its code. */
void preload_choose(uintptr_t begin, uintptr_t end) {
  if (library_count < LIBRARIES) libraries[library_count++] = (struct library){begin, end};
}

/* Refuses the n-th request from now on (0: none), and all later ones if `more` is set. */
void preload_arm(size_t n, int more) {
  pthread_mutex_lock(&lock);
  requests = refused = 0;
  fail_at = n;
  onwards = more;
  counting = true;
  pthread_mutex_unlock(&lock);
}

size_t preload_requests(void) { return requests; }
size_t preload_refused(void) { return refused; }
size_t preload_alive(void) { return alive; }
