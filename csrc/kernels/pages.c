/* A row keeps its pages until some more have been read: a release takes a microsecond. */
#include "kernels/pages.h"

enum {
  LARGE = 1 << 20,   /* bytes of a table whose rows are noted */
  MAPPED = 1 << 16   /* bytes around an access that Linux maps, aligned; or a huge page, which
                      * leaves memory as a whole */
};

static void release_rows(ec_pages *pages) {
  for (size_t i = 0; i < pages->count; i++) {
    const uintptr_t first = pages->rows[i].first;
    pages->release(pages->user, (const void *)first, pages->rows[i].end - first);
  }
  pages->count = 0;
}

static bool is_noted(const ec_pages *pages, const ec_tensor *matrix) {
  return pages && matrix->flags & EC_TENSOR_READONLY && matrix->rank == 2 &&
         ec_tensor_is_contiguous(matrix) && ec_tensor_nbytes(matrix) >= LARGE;
}

void ec_pages_read_row(ec_pages *pages, const ec_tensor *matrix, int64_t row, int64_t rows) {
  if (!is_noted(pages, matrix) || (rows > EC_PAGES_ROWS && pages->again == EC_PAGES_AGAIN)) return;
  const size_t bytes = (size_t)matrix->sizes[1] * ec_dtype_size(ec_tensor_dtype(matrix));
  const uintptr_t at = (uintptr_t)matrix->data + (size_t)row * bytes;
  const uintptr_t first = at / MAPPED * MAPPED, end = (at + bytes + MAPPED - 1) / MAPPED * MAPPED;
  for (size_t i = 0; i < pages->count; i++)
    if (pages->rows[i].first == first && pages->rows[i].end == end) return;
  pages->again += rows > EC_PAGES_ROWS;
  if (pages->count == EC_PAGES_ROWS) release_rows(pages);
  pages->rows[pages->count].first = first;
  pages->rows[pages->count++].end = end;
}

void ec_pages_read_rows(ec_pages *pages, const ec_tensor *matrix, const int64_t *offsets,
                        int64_t stride, int64_t rows) {
  if (!stride || !is_noted(pages, matrix)) return;
  for (int64_t i = 0; i < rows; i++) ec_pages_read_row(pages, matrix, offsets[i] / stride, rows);
}
