/* Steps so small that the caller computes them alone.
 *
 * XNNPACK of 2024-11 halves an addition of 768 floats for two threads, and makes each row of a
 * rotary embedding a task. Waking a worker and waiting for it takes as long as some 32 KB of such
 * steps, of which a token of a small language model has 400. */
#include "executorch_c/speed/ecx.h"
#include "xnnpack/compute.h"

enum { ECX_ALONE = 1 << 15 /* bytes of a result */ };

static bool ecx_is_binary(const struct compute_parameters* compute) {
  return compute->task_1d == (pthreadpool_task_1d_t) xnn_compute_elementwise_binary_1d ||
         compute->task_2d == (pthreadpool_task_2d_t) xnn_compute_elementwise_binary_2d ||
         compute->task_3d == (pthreadpool_task_3d_t) xnn_compute_elementwise_binary_3d ||
         compute->task_4d == (pthreadpool_task_4d_t) xnn_compute_elementwise_binary_4d ||
         compute->task_5d == (pthreadpool_task_5d_t) xnn_compute_elementwise_binary_5d;
}

static size_t ecx_count_dims(enum xnn_parallelization_type type) {
  switch (type) {
    case xnn_parallelization_type_1d: return 1;
    case xnn_parallelization_type_2d: return 2;
    case xnn_parallelization_type_3d: return 3;
    case xnn_parallelization_type_4d: return 4;
    case xnn_parallelization_type_5d: return 5;
    default: return 0;
  }
}

/* Returns the bytes of a step by elements or of a copy of rows, SIZE_MAX for others. */
static size_t ecx_step_bytes(const struct compute_parameters* compute, const void* context) {
  const pthreadpool_task_1d_tile_1d_t task = compute->task_1d_tile_1d;
  if (compute->type == xnn_parallelization_type_1d_tile_1d) {
    if (task == (pthreadpool_task_1d_tile_1d_t) xnn_compute_univector_contiguous ||
        task == (pthreadpool_task_1d_tile_1d_t) xnn_compute_elementwise_binary_1d_tile)
      return compute->range[0];
    if (task == (pthreadpool_task_1d_tile_1d_t) xnn_compute_univector_strided)
      return compute->range[0] * ((const struct univector_strided_context*) context)->n;
    return SIZE_MAX;
  }
  const size_t dims = ecx_count_dims(compute->type);
  if (dims == 0 || !ecx_is_binary(compute)) return SIZE_MAX;
  size_t bytes = ((const struct elementwise_binary_context*) context)->elements;
  for (size_t i = 0; i < dims; i++) bytes *= compute->range[i];
  return bytes;
}

pthreadpool_t ecx_pool_of(const struct compute_parameters* compute, const void* context,
                          pthreadpool_t pool) {
  return pool != NULL && ecx_step_bytes(compute, context) <= ECX_ALONE ? NULL : pool;
}
