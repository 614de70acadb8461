/* How products and convolutions are split into tasks: put into XNNPACK's operator-run.c.
 *
 * XNNPACK of 2024-11 takes a few rows at a time and goes through all weights with them, so weights
 * that do not fit the second-level cache are fetched again for every few rows; and it makes a task
 * of every few rows, so that threads spend a part of their time on taking tasks. Here as many
 * columns as fit stay in the cache while all rows go by, and a task is a fair part of the work.
 * Which microkernel computes what, and in which order it adds, stays as it is. Later versions of
 * XNNPACK look for good tiles as well. */
enum {
  ECX_PANEL = 1 << 19, /* bytes of packed weights that stay while rows go by */
  ECX_TASKS = 10       /* for each thread, so that none waits long for the last */
};

struct ecx_rows {
  pthreadpool_task_2d_tile_2d_t task;
  void* context;
  size_t mr; /* rows that a microkernel takes */
};

static void ecx_run_rows(struct ecx_rows* rows, size_t column, size_t row, size_t columns,
                         size_t count) {
  for (const size_t end = row + count; row < end; row += rows->mr)
    rows->task(rows->context, row, column, min(rows->mr, end - row), columns);
}

/* Bytes of packed weights for `nr` columns, the least that a microkernel takes; 0: `task` is no
 * product. */
static size_t ecx_least_panel(pthreadpool_task_2d_tile_2d_t task, const void* context, size_t* nr) {
  if (task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_gemm ||
      task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_dqgemm) {
    const struct gemm_context* gemm = context;
    *nr = gemm->cn_stride >> gemm->log2_csize;
    return *nr * gemm->w_stride;
  }
  if (task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_igemm ||
      task == (pthreadpool_task_2d_tile_2d_t) xnn_compute_dqigemm) {
    const struct igemm_context* igemm = context;
    *nr = igemm->cn_stride >> igemm->log2_csize;
    return *nr * igemm->w_stride;
  }
  return 0;
}

/* In place of pthreadpool_parallelize_2d_tile_2d: m rows of n columns, mr and nc at once. */
static void ecx_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task,
                                       void* context, size_t m, size_t n, size_t mr, size_t nc,
                                       uint32_t flags) {
  size_t nr = 0;
  const size_t least = m > mr ? ecx_least_panel(task, context, &nr) : 0;
  if (!least) {
    pthreadpool_parallelize_2d_tile_2d(pool, task, context, m, n, mr, nc, flags);
    return;
  }
  struct ecx_rows rows = {task, context, mr};
  const size_t threads = pthreadpool_get_threads_count(pool);
  const size_t blocks = divide_round_up(m, mr);
  nc = min(nc, max(1, ECX_PANEL / least) * nr);
  size_t each = blocks;
  if (threads > 1) each = max(1, blocks * divide_round_up(n, nc) / (threads * ECX_TASKS));
  pthreadpool_parallelize_2d_tile_2d(pool, (pthreadpool_task_2d_tile_2d_t) ecx_run_rows, &rows, n,
                                     m, nc, min(each, blocks) * mr, flags);
}

