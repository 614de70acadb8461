/* Bytes of a file: a private read-only mapping, or a borrowed buffer. */
#include "format/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/limits.h"
#include "format/kind.h"

enum { BUFFER_ALIGN = 16 };

static ec_status fail_path(ec_error *err, const char *what, const char *path) {
  return ec_fail(err, EC_ACCESS_FAILED, "cannot %s '%s': %s", what, path, strerror(errno));
}

static void *alloc_for(const char *path, size_t size, ec_error *err) {
  void *data = ec_alloc(size);
  if (!data)
    (void)ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for the %zu bytes of '%s'", size,
                  path);
  return data;
}

/* Reads a whole file, which fails if it shrinks meanwhile. */
static ec_status copy_file(ec_source *out, int fd, size_t size, const char *path, ec_error *err) {
  uint8_t *data = alloc_for(path, size, err);
  if (!data) return EC_MEMORY_ALLOCATION_FAILED;
  out->data = out->owner = data;
  out->release = ec_free;
  for (size_t at = 0; at < size;) {
    const ssize_t count = read(fd, data + at, size - at);
    if (count < 0 && errno != EINTR) return fail_path(err, "read", path);
    if (count == 0)
      return ec_fail(err, EC_ACCESS_FAILED, "'%s' has %zu bytes, it had %zu", path, at, size);
    if (count > 0) at += (size_t)count;
  }
  return EC_OK;
}

static ec_status map_file(ec_source *out, int fd, const char *path, bool is_locked, ec_error *err) {
  struct stat info;
  if (fstat(fd, &info) != 0) return fail_path(err, "read the size of", path);
  const char *kind = S_ISDIR(info.st_mode)                    ? ec_kind_of_folder(path)
                     : !S_ISREG(info.st_mode)                 ? "a device or pipe, not a file"
                     : info.st_size == 0                      ? "an empty file"
                     : (uintmax_t)info.st_size > EC_MAX_BYTES ? "too large for this machine"
                                                              : NULL;
  if (kind) return ec_fail(err, EC_ACCESS_FAILED, "'%s' is %s", path, kind);
  const size_t size = out->size = (size_t)info.st_size;
  if (size <= EC_COPIED_FILE && !is_locked) return copy_file(out, fd, size, path, err);
  void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return fail_path(err, "map", path);
  out->data = data;
  out->mapped = size;
  out->watched = fd + 1;
  out->written = info.st_mtim;
  return EC_OK;
}

ec_status ec_source_check_open(int fd, const char *name, bool *is_stream, ec_error *err) {
  struct stat info;
  if (fstat(fd, &info) != 0) return fail_path(err, "read the kind of", name);
  *is_stream = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode);
  if (S_ISREG(info.st_mode) || *is_stream) return EC_OK;
  return ec_fail(err, EC_ACCESS_FAILED, "the open file '%s' is %s", name,
                 S_ISDIR(info.st_mode) ? "a folder" : "a device, not a file");
}

static ec_status copy_path(ec_source *out, const char *path, ec_error *err) {
  const size_t size = strlen(path) + 1;
  out->path = alloc_for(path, size, err);
  if (!out->path) return EC_MEMORY_ALLOCATION_FAILED;
  memcpy(out->path, path, size);
  return EC_OK;
}

ec_status ec_source_open_file(ec_source *out, const char *path, ec_mlock mlock_mode,
                              ec_error *err) {
  *out = (ec_source){0};
  int fd;
  /* O_NONBLOCK: a pipe is refused without waiting */
  do fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail_path(err, "open", path);
  ec_status status = map_file(out, fd, path, mlock_mode != EC_MLOCK_NONE, err);
  if (!out->watched) close(fd);
  if (status == EC_OK && mlock_mode != EC_MLOCK_NONE && mlock(out->data, out->size) != 0 &&
      mlock_mode == EC_MLOCK_REQUIRE)
    status = fail_path(err, "lock in memory", path);
  if (status == EC_OK) status = copy_path(out, path, err);
  if (status != EC_OK) ec_source_close(out);
  return status;
}

ec_status ec_source_open_buffer(ec_source *out, const void *data, size_t size,
                                void (*release)(void *owner), void *owner, ec_error *err) {
  *out = (ec_source){0};
  if (!data || size == 0) return ec_fail(err, EC_INVALID_ARGUMENT, "the buffer is empty");
  if (size > EC_MAX_BYTES)
    return ec_fail(err, EC_INVALID_ARGUMENT, "a buffer cannot have %zu bytes", size);
  if ((uintptr_t)data % BUFFER_ALIGN == 0) {
    *out = (ec_source){.data = data, .size = size, .release = release, .owner = owner};
    return EC_OK;
  }
  void *copy = ec_alloc(size);
  if (!copy)
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                   "no memory to copy a buffer of %zu bytes that is not aligned to %d bytes", size,
                   BUFFER_ALIGN);
  memcpy(copy, data, size);
  if (release) release(owner);
  *out = (ec_source){.data = copy, .size = size, .release = ec_free, .owner = copy};
  return EC_OK;
}

ec_status ec_source_check_unchanged(const ec_source *source, ec_error *err) {
  struct stat info;
  if (!source->watched || fstat(source->watched - 1, &info) != 0) return EC_OK;
  if ((uintmax_t)info.st_size == source->size && info.st_mtim.tv_sec == source->written.tv_sec &&
      info.st_mtim.tv_nsec == source->written.tv_nsec)
    return EC_OK;
  return ec_fail(err, EC_INVALID_STATE,
                 "'%s' was written after it was loaded (%jd bytes, it had %zu): load it again",
                 source->path, (intmax_t)info.st_size, source->size);
}

void ec_source_release_pages(const ec_source *source, const void *data, size_t size) {
  const uintptr_t base = (uintptr_t)source->data, at = (uintptr_t)data;
  if (!source->mapped || at < base || !ec_in_range(at - base, size, source->mapped)) return;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = (at + page - 1) / page * page, last = (at + size) / page * page;
  if (first < last) (void)madvise((void *)first, last - first, MADV_DONTNEED);
}

void ec_source_close(ec_source *source) {
  if (source->watched) close(source->watched - 1);
  if (source->mapped) munmap((void *)(uintptr_t)source->data, source->mapped);
  if (source->release) source->release(source->owner);
  ec_free(source->path);
  *source = (ec_source){0};
}
