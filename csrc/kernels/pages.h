/* Pages of mapped files that look-ups read.
 *
 * The first read of a row maps 64 KB or 2 MB of the file around it (Linux). So a language model
 * would soon have its whole table of embeddings in memory, of which it reads a row for each
 * token. Mapping them again takes 8 us for each row, which calls that look up many rows spend a
 * limited number of times: the table of an encoder of text stays. */
#ifndef EC_KERNELS_PAGES_H
#define EC_KERNELS_PAGES_H

#include "core/tensor.h"

enum { EC_PAGES_ROWS = 4, EC_PAGES_AGAIN = 1024 };

/* The rows that were read last, and the owner of the files. Guarded by the method's lock. */
typedef struct ec_pages {
  void (*release)(void *user, const void *data, size_t size);
  void *user;
  size_t again; /* rows read in calls with many of them, at most EC_PAGES_AGAIN */
  size_t count;
  struct {
    uintptr_t first, end;
  } rows[EC_PAGES_ROWS];
} ec_pages;

/* Notes that row `row` of a matrix has been read, one of `rows` of this call. Pages of a large
 * constant leave memory after some rows; the next read maps them again. `pages` NULL: no effect. */
void ec_pages_read_row(ec_pages *pages, const ec_tensor *matrix, int64_t row, int64_t rows);

/* Notes it for `rows` rows, whose offsets in elements are multiples of `stride`. */
void ec_pages_read_rows(ec_pages *pages, const ec_tensor *matrix, const int64_t *offsets,
                        int64_t stride, int64_t rows);

#endif
