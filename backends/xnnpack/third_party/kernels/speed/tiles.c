/* The split of products and convolutions into tasks.
 *
 * XNNPACK of 2024-11 processes a few rows at a time with all weights, so weights that do not fit
 * the second-level cache are fetched again for every few rows. It also creates a task for every few
 * rows, so threads spend much time on fetching tasks. Here a panel of columns that fits stays in
 * the cache for all rows, and a task is large enough to be fetched, but not larger: at the end of
 * a product a thread waits for half a task of another (with 10 tasks each, 5 % of the time).
 * Microkernels and their order of additions are unchanged. Later versions of XNNPACK choose tiles
 * in a similar way.
 *
 * A product of one row with few weights (a small model that decodes) ends before another thread
 * has taken a task: the caller computes it alone. The time of a product grows with its rows, and
 * the first one costs as much as ECX_FIRST, because it waits for the weights.
 *
 * With threads and few rows XNNPACK splits columns into tiles of one vector, which its kernels of
 * bytes multiply at once, but those of products.h need four for their speed. And each task of a
 * convolution with groups was a few rows of one group, 0.1 us for groups of 16 channels. So
 * products whose results are bytes have tiles of ECX_WIDE columns, and tasks of many rows of a
 * group or an image. */
#include "executorch_c/speed/ecx.h"
#include "xnnpack/compute.h"
#include "xnnpack/math.h"

enum {
  ECX_PANEL = 1 << 19, /* bytes of packed weights that stay in the cache for all rows */
  ECX_TASKS = 10,      /* minimum number of a thread, so that none waits long for the last one */
  ECX_TASK = 1 << 20,  /* bytes of weights times rows, some 5 us: tasks may be so small */
  ECX_FIRST = 5,       /* rows */
  ECX_ROW_TASK = 1 << 16, /* bytes of weights of a task of few rows, some 2 us */
  ECX_WIDE = 64        /* columns that a kernel of products.h multiplies at once */
};

/* A product: `images` (or groups) of m rows and n columns. */
struct ecx_shape {
  size_t images, m, n, mr; /* mr: rows of the microkernel */
  size_t nr, least;        /* its columns, and the bytes of packed weights for them; or 0 */
  bool bytes;              /* its results */
};

struct ecx_rows {
  pthreadpool_task_2d_tile_2d_t task;
  pthreadpool_task_3d_tile_2d_t image_task;
  void* context;
  size_t mr;
};

static void ecx_run_rows(struct ecx_rows* rows, size_t column, size_t row, size_t columns,
                         size_t count) {
  for (const size_t end = row + count; row < end; row += rows->mr)
    rows->task(rows->context, row, column, min(rows->mr, end - row), columns);
}

static void ecx_run_image_rows(struct ecx_rows* rows, size_t image, size_t column, size_t row,
                               size_t columns, size_t count) {
  for (const size_t end = row + count; row < end; row += rows->mr)
    rows->image_task(rows->context, image, row, column, min(rows->mr, end - row), columns);
}

static void ecx_set_gemm(struct ecx_shape* shape, const struct gemm_context* gemm) {
  shape->nr = gemm->cn_stride >> gemm->log2_csize;
  shape->least = shape->nr * gemm->w_stride;
  shape->bytes = gemm->log2_csize == 0;
}

static void ecx_set_igemm(struct ecx_shape* shape, const struct igemm_context* igemm) {
  shape->nr = igemm->cn_stride >> igemm->log2_csize;
  shape->least = shape->nr * igemm->w_stride;
  shape->bytes = igemm->log2_csize == 0;
}

/* Returns the number of columns of a task, where XNNPACK proposes `nc`. */
static size_t ecx_columns(const struct ecx_shape* shape, size_t nc, size_t threads) {
  const size_t wide = round_up(ECX_WIDE, shape->nr);
  if (shape->bytes) {
    const size_t columns = shape->images * divide_round_up(shape->m, shape->mr) * shape->n;
    nc = threads == 1 ? shape->n : max(wide, columns / (threads * ECX_TASKS));
  }
  const size_t most = shape->m > shape->mr || threads == 1 ? ECX_PANEL : ECX_ROW_TASK;
  if (shape->m > shape->mr || threads > 1) nc = min(nc, max(1, most / shape->least) * shape->nr);
  if (shape->bytes && nc > wide) nc -= nc % wide;
  return min(nc, shape->n);
}

/* Returns the number of rows of a task of `nc` columns. */
static size_t ecx_count_rows(const struct ecx_shape* shape, size_t nc, size_t threads) {
  const size_t blocks = divide_round_up(shape->m, shape->mr);
  if (threads == 1) return blocks * shape->mr;
  const size_t all = shape->images * blocks * divide_round_up(shape->n, nc);
  const size_t bytes = divide_round_up(nc, shape->nr) * shape->least * shape->mr;
  return max(1, min(blocks, min(all / (threads * ECX_TASKS), ECX_TASK / bytes))) * shape->mr;
}

/* Returns the pool, or NULL if the product ends before a thread has taken a task. */
static pthreadpool_t ecx_pool(const struct ecx_shape* shape, pthreadpool_t pool) {
  const size_t panels = divide_round_up(shape->n, shape->nr);
  const size_t rows = shape->images * shape->m + ECX_FIRST;
  return panels * shape->least * rows < ECX_TASK ? NULL : pool;
}

/* Replaces pthreadpool_parallelize_2d_tile_2d: m rows of n columns, mr and nc at once. */
void ecx_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task,
                                       void* context, size_t m, size_t n, size_t mr, size_t nc,
                                       uint32_t flags) {
  struct ecx_shape shape = {.images = 1, .m = m, .n = n, .mr = mr};
  if (task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_gemm ||
      task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_dqgemm)
    ecx_set_gemm(&shape, context);
  if (task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_igemm ||
      task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_dqigemm)
    ecx_set_igemm(&shape, context);
  if (!shape.least) {
    pthreadpool_parallelize_2d_tile_2d(pool, task, context, m, n, mr, nc, flags);
    return;
  }
  pool = ecx_pool(&shape, pool);
  const size_t threads = pthreadpool_get_threads_count(pool);
  nc = ecx_columns(&shape, nc, threads);
  struct ecx_rows rows = {.task = task, .context = context, .mr = mr};
  pthreadpool_parallelize_2d_tile_2d(pool, (pthreadpool_task_2d_tile_2d_t) ecx_run_rows, &rows, n,
                                     m, nc, ecx_count_rows(&shape, nc, threads), flags);
}

/* Replaces pthreadpool_parallelize_3d_tile_2d: likewise for groups or images, to bytes. */
void ecx_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task,
                                       void* context, size_t images, size_t m, size_t n, size_t mr,
                                       size_t nc, uint32_t flags) {
  struct ecx_shape shape = {.images = images, .m = m, .n = n, .mr = mr};
  if (task == (pthreadpool_task_3d_tile_2d_t) xnn_compute_grouped_gemm)
    ecx_set_gemm(&shape, context);
  if (task == (pthreadpool_task_3d_tile_2d_t) xnn_compute_grouped_igemm ||
      task == (pthreadpool_task_3d_tile_2d_t) xnn_compute_batch_igemm)
    ecx_set_igemm(&shape, context);
  if (!shape.least || !shape.bytes) {
    pthreadpool_parallelize_3d_tile_2d(pool, task, context, images, m, n, mr, nc, flags);
    return;
  }
  pool = ecx_pool(&shape, pool);
  const size_t threads = pthreadpool_get_threads_count(pool);
  nc = ecx_columns(&shape, nc, threads);
  struct ecx_rows rows = {.image_task = task, .context = context, .mr = mr};
  pthreadpool_parallelize_3d_tile_2d(pool, (pthreadpool_task_3d_tile_2d_t) ecx_run_image_rows,
                                     &rows, images, n, m, nc,
                                     ecx_count_rows(&shape, nc, threads), flags);
}
