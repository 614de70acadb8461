/* The bytes of a file, mapped or in the caller's buffer, and read in place. */
#ifndef EC_FORMAT_SOURCE_H
#define EC_FORMAT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "core/error.h"

enum { EC_COPIED_FILE = 1 << 20 }; /* bytes of a file that is copied, not mapped */

/* Memory locking of a mapped file's pages. */
typedef enum ec_mlock {
  EC_MLOCK_NONE,    /* pages are read at the first access (default) */
  EC_MLOCK_TRY,     /* mlock; a refusal is ignored */
  EC_MLOCK_REQUIRE  /* mlock; a refusal is AccessFailed */
} ec_mlock;

/* A zeroed source is closed. */
typedef struct ec_source {
  const uint8_t *data;
  size_t size;
  void (*release)(void *owner); /* called once by ec_source_close; may be NULL */
  void *owner;
  size_t mapped;           /* bytes to unmap; 0 for a buffer */
  int watched;             /* the mapped file's descriptor + 1; 0 for none */
  struct timespec written; /* time of the mapped file's last write */
  char *path;              /* a copy, for messages; NULL for a buffer */
} ec_source;

/* Maps a file read-only, or copies it: one up to EC_COPIED_FILE bytes that need no locking. Refuses
 * empty files, directories and devices. AccessFailed names the path and the system's reason. */
ec_status ec_source_open_file(ec_source *out, const char *path, ec_mlock mlock, ec_error *err);

/* Refuses the descriptor of an open device or folder, by its name. Sets `is_stream` for a pipe or
 * socket, which may be endless. */
ec_status ec_source_check_open(int fd, const char *name, bool *is_stream, ec_error *err);

/* Borrows a buffer; `release(owner)` is called when it is no longer needed. A buffer that is not
 * aligned to 16 bytes is copied, and released at once, so that constants keep their alignment in
 * the file. On failure release is not called. */
ec_status ec_source_open_buffer(ec_source *out, const void *data, size_t size,
                                void (*release)(void *owner), void *owner, ec_error *err);

/* Fails if a mapped file has another size or time stamp than when it was opened. One that shrinks
 * later, while it is read, still ends the process with SIGBUS. */
ec_status ec_source_check_unchanged(const ec_source *source, ec_error *err);

/* Releases the pages of [data, data + size) if they belong to a mapped file; the next access reads
 * them again. Buffers and shared pages are unaffected. */
void ec_source_release_pages(const ec_source *source, const void *data, size_t size);

void ec_source_close(ec_source *source);

#endif
