/* The split of products and convolutions into tasks, inserted into XNNPACK's operator-run.c.
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
 * the first one costs as much as ECX_FIRST, because it waits for the weights. */
enum {
  ECX_PANEL = 1 << 19, /* bytes of packed weights that stay in the cache for all rows */
  ECX_TASKS = 10,      /* minimum number of a thread, so that none waits long for the last one */
  ECX_TASK = 1 << 20,  /* bytes of weights times rows, some 5 us: tasks may be so small */
  ECX_FIRST = 5        /* rows */
};

struct ecx_rows {
  pthreadpool_task_2d_tile_2d_t task;
  void* context;
  size_t mr; /* rows of the microkernel */
};

static void ecx_run_rows(struct ecx_rows* rows, size_t column, size_t row, size_t columns,
                         size_t count) {
  for (const size_t end = row + count; row < end; row += rows->mr)
    rows->task(rows->context, row, column, min(rows->mr, end - row), columns);
}

/* Returns the bytes of packed weights for `nr` columns, the microkernel's minimum; 0 if `task` is
 * not a product. */
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

/* Replaces pthreadpool_parallelize_2d_tile_2d: m rows of n columns, mr and nc at once. */
static void ecx_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task,
                                       void* context, size_t m, size_t n, size_t mr, size_t nc,
                                       uint32_t flags) {
  size_t nr = 0;
  const size_t least = ecx_least_panel(task, context, &nr);
  if (least && divide_round_up(n, nr) * least * (m + ECX_FIRST) < ECX_TASK) pool = NULL;
  if (!least || m <= mr) {
    pthreadpool_parallelize_2d_tile_2d(pool, task, context, m, n, mr, nc, flags);
    return;
  }
  struct ecx_rows rows = {task, context, mr};
  const size_t threads = pthreadpool_get_threads_count(pool);
  const size_t blocks = divide_round_up(m, mr);
  nc = min(nc, max(1, ECX_PANEL / least) * nr);
  size_t each = blocks;
  if (threads > 1) {
    const size_t fair = blocks * divide_round_up(n, nc) / (threads * ECX_TASKS);
    const size_t bytes = divide_round_up(min(n, nc), nr) * least * mr;
    each = max(1, min(fair, ECX_TASK / bytes));
  }
  pthreadpool_parallelize_2d_tile_2d(pool, (pthreadpool_task_2d_tile_2d_t) ecx_run_rows, &rows, n,
                                     m, nc, min(each, blocks) * mr, flags);
}

