/* Preloaded into a Python process (LD_PRELOAD): counts calls of the kernel's file, process and
 * thread functions, and lets the n-th of them fail, or do less than it was asked for.
 * tests/runtime/test_without_io.py drives it with ctypes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum mode { FAIL, SHORT, INTERRUPT };

static atomic_size_t calls, fail_at;
static atomic_int mode;
static atomic_bool counting, happened;
static const char *_Atomic name_of_last;

/* Returns whether this call is the one: `names` has the modes that the function knows. */
static bool is_the_one(const char *name, unsigned modes) {
  if (!counting) return false;
  const size_t number = atomic_fetch_add(&calls, 1) + 1;
  if (number != fail_at || !(modes >> mode & 1u)) return false;
  name_of_last = name;
  happened = true;
  return true;
}

static bool fails(const char *name, int error) {
  if (!is_the_one(name, 1u << FAIL)) return false;
  errno = error;
  return true;
}

/* Returns whether a transfer fails; shortens it in mode SHORT. */
static bool transfer_fails(const char *name, int error, size_t *size) {
  if (!is_the_one(name, 1u << FAIL | 1u << SHORT | 1u << INTERRUPT)) return false;
  if (mode == SHORT) {
    if (*size > 1) *size = 1;
    return false;
  }
  errno = mode == INTERRUPT ? EINTR : error;
  return true;
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* ---- files ----------------------------------------------------------------------------------- */

static bool open_fails(const char *name, int flags) {
  if (!is_the_one(name, 1u << FAIL | 1u << INTERRUPT)) return false;
  errno = mode == INTERRUPT ? EINTR : flags & O_CREAT ? ENOSPC : EMFILE;
  return true;
}

#define OPEN(NAME)                                                         \
  int NAME(const char *path, int flags, ...) {                             \
    va_list rest;                                                          \
    va_start(rest, flags);                                                 \
    const mode_t permissions = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                          \
    return open_fails(#NAME, flags) ? -1 : NEXT(NAME)(path, flags, permissions); \
  }
OPEN(open)
OPEN(open64)

ssize_t read(int fd, void *to, size_t size) {
  return transfer_fails("read", EIO, &size) ? -1 : NEXT(read)(fd, to, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t at) {
  return transfer_fails("pread", EIO, &size) ? -1 : NEXT(pread)(fd, to, size, at);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
  return transfer_fails("pread64", EIO, &size) ? -1 : NEXT(pread64)(fd, to, size, at);
}

ssize_t write(int fd, const void *from, size_t size) {
  return transfer_fails("write", ENOSPC, &size) ? -1 : NEXT(write)(fd, from, size);
}

int fstat(int fd, struct stat *out) {
  return fails("fstat", EIO) ? -1 : NEXT(fstat)(fd, out);
}

int fstat64(int fd, struct stat64 *out) {
  return fails("fstat64", EIO) ? -1 : NEXT(fstat64)(fd, out);
}

off_t lseek(int fd, off_t at, int from) {
  return fails("lseek", EIO) ? -1 : NEXT(lseek)(fd, at, from);
}

off64_t lseek64(int fd, off64_t at, int from) {
  return fails("lseek64", EIO) ? -1 : NEXT(lseek64)(fd, at, from);
}

int ftruncate(int fd, off_t size) {
  return fails("ftruncate", EIO) ? -1 : NEXT(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size) {
  return fails("ftruncate64", EIO) ? -1 : NEXT(ftruncate64)(fd, size);
}

int fsync(int fd) { return fails("fsync", EIO) ? -1 : NEXT(fsync)(fd); }

int rename(const char *from, const char *to) {
  return fails("rename", ENOSPC) ? -1 : NEXT(rename)(from, to);
}

int mkdir(const char *path, mode_t permissions) {
  return fails("mkdir", ENOSPC) ? -1 : NEXT(mkdir)(path, permissions);
}

/* The descriptor is closed, and the error is one of delayed writes (NFS, quotas). */
int close(int fd) {
  const bool no = is_the_one("close", 1u << FAIL);
  const int result = NEXT(close)(fd);
  if (!no) return result;
  errno = EIO;
  return -1;
}

/* Anonymous maps are allocations: preload_alloc.c. */
void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset) {
  if (fd >= 0 && fails("mmap", ENOMEM)) return MAP_FAILED;
  return NEXT(mmap)(at, size, rights, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int rights, int flags, int fd, off64_t offset) {
  if (fd >= 0 && fails("mmap64", ENOMEM)) return MAP_FAILED;
  return NEXT(mmap64)(at, size, rights, flags, fd, offset);
}

/* ---- pipes, processes and threads ------------------------------------------------------------ */

int pipe2(int fds[2], int flags) { return fails("pipe2", EMFILE) ? -1 : NEXT(pipe2)(fds, flags); }
int dup(int fd) { return fails("dup", EMFILE) ? -1 : NEXT(dup)(fd); }
pid_t fork(void) { return fails("fork", EAGAIN) ? -1 : NEXT(fork)(); }
pid_t vfork(void) { return fork(); } /* a real one cannot return through this function */

int pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*run)(void *), void *with) {
  if (fails("pthread_create", EAGAIN)) return EAGAIN;
  return NEXT(pthread_create)(out, how, run, with);
}

/* ---- for ctypes ------------------------------------------------------------------------------ */

/* Counts calls from now on; lets the n-th of them fail (0: none) as `how` says. */
void preload_io_arm(size_t n, int how) {
  calls = 0;
  fail_at = n;
  mode = how;
  happened = false;
  name_of_last = "";
  counting = true;
}

/* Stops counting. Returns the number of calls. */
size_t preload_io_disarm(void) {
  counting = false;
  return calls;
}

bool preload_io_happened(void) { return happened; }
const char *preload_io_name(void) { return name_of_last; }
