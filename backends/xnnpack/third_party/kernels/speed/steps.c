/* Runtimes without threads run a list of their steps.
 *
 * XNNPACK looks for each step in its operator, among a kilobyte of other members, in each call, and
 * saves and sets the state of the floating-point unit around it. That takes longer than a step of
 * 64 elements, of which a recurrent layer has a dozen in each of its delegates. */
#include <string.h>

#include "executorch_c/speed/ecx.h"
#include "xnnpack/allocator.h"
#include "xnnpack/math.h"
#include "xnnpack/operator.h"
#include "xnnpack/prefetch.h"
#include "xnnpack/subgraph.h"

/* One cache line. The type of a whole operator, which is run as before, is `invalid`. */
struct ecx_step {
  enum xnn_parallelization_type type;
  union {
    pthreadpool_task_1d_t task_1d;
    pthreadpool_task_1d_tile_1d_t task_1d_tile_1d;
    pthreadpool_task_2d_t task_2d;
    pthreadpool_task_2d_tile_1d_t task_2d_tile_1d;
    pthreadpool_task_2d_tile_2d_t task_2d_tile_2d;
    xnn_operator_t op;
  };
  void* context;
  size_t range[2], tile[2];
};

struct ecx_steps {
  size_t count;
  struct ecx_step steps[];
};

static bool ecx_set_step(struct ecx_step* step, xnn_operator_t op,
                         const struct compute_parameters* compute) {
  step->type = compute->type;
  step->context = (void*) ((uintptr_t) &op->context + compute->context_offset);
  memcpy(step->range, compute->range, sizeof step->range);
  memcpy(step->tile, compute->tile, sizeof step->tile);
  switch (compute->type) {
    case xnn_parallelization_type_1d: step->task_1d = compute->task_1d; return true;
    case xnn_parallelization_type_1d_tile_1d:
      step->task_1d_tile_1d = compute->task_1d_tile_1d;
      return true;
    case xnn_parallelization_type_2d: step->task_2d = compute->task_2d; return true;
    case xnn_parallelization_type_2d_tile_1d:
      step->task_2d_tile_1d = compute->task_2d_tile_1d;
      return true;
    case xnn_parallelization_type_2d_tile_2d:
      step->task_2d_tile_2d = compute->task_2d_tile_2d;
      return !ecx_is_deferred(compute, step->context);
    default: return false;
  }
}

/* Writes the steps of an operator. Returns their number. */
static size_t ecx_list_operator(xnn_operator_t op, struct ecx_step* steps) {
  size_t count = 0;
  bool simple = op->state == xnn_run_state_ready;
  if (op->state == xnn_run_state_skip) return 0;
  for (size_t i = 0; i < XNN_MAX_COMPUTE_INVOCATIONS && simple; i++)
    if (op->compute[i].type != xnn_parallelization_type_invalid)
      simple = ecx_set_step(&steps[count++], op, &op->compute[i]);
  if (simple) return count;
  *steps = (struct ecx_step) {.type = xnn_parallelization_type_invalid, .op = op};
  return 1;
}

/* Lists the steps of a runtime that has been set up. Returns false without memory for them. */
static bool ecx_list_steps(xnn_runtime_t runtime) {
  const size_t most = runtime->num_ops * XNN_MAX_OPERATOR_OBJECTS * XNN_MAX_COMPUTE_INVOCATIONS;
  struct ecx_step* all = xnn_allocate_memory(most * sizeof *all);
  if (all == NULL) return false;
  size_t count = 0;
  for (size_t i = 0; i < runtime->num_ops; i++)
    for (size_t j = 0; j < XNN_MAX_OPERATOR_OBJECTS; j++)
      if (runtime->opdata[i].operator_objects[j] != NULL)
        count += ecx_list_operator(runtime->opdata[i].operator_objects[j], all + count);
  struct ecx_steps* steps = xnn_allocate_simd_memory(sizeof *steps + count * sizeof *all);
  if (steps != NULL) {
    steps->count = count;
    memcpy(steps->steps, all, count * sizeof *all);
    runtime->ecx_steps = steps;
  }
  xnn_release_memory(all);
  return steps != NULL;
}

/* Runs a step as pthreadpool does without threads. */
static enum xnn_status ecx_run_step(const struct ecx_step* s) {
  switch (s->type) {
    case xnn_parallelization_type_1d:
      for (size_t i = 0; i < s->range[0]; i++) s->task_1d(s->context, i);
      break;
    case xnn_parallelization_type_1d_tile_1d:
      for (size_t i = 0; i < s->range[0]; i += s->tile[0])
        s->task_1d_tile_1d(s->context, i, min(s->range[0] - i, s->tile[0]));
      break;
    case xnn_parallelization_type_2d:
      for (size_t i = 0; i < s->range[0]; i++)
        for (size_t j = 0; j < s->range[1]; j++) s->task_2d(s->context, i, j);
      break;
    case xnn_parallelization_type_2d_tile_1d:
      for (size_t i = 0; i < s->range[0]; i++)
        for (size_t j = 0; j < s->range[1]; j += s->tile[0])
          s->task_2d_tile_1d(s->context, i, j, min(s->range[1] - j, s->tile[0]));
      break;
    case xnn_parallelization_type_2d_tile_2d:
      ecx_parallelize_2d_tile_2d(NULL, s->task_2d_tile_2d, s->context, s->range[0], s->range[1],
                                 s->tile[0], s->tile[1], 0);
      break;
    default: return xnn_run_operator_with_index(s->op, 0, 0, NULL);
  }
  return xnn_status_success;
}

struct ecx_call {
  const struct ecx_steps* steps;
  enum xnn_status status;
};

static void ecx_run_steps(struct ecx_call* call, size_t index) {
  const struct ecx_step* s = call->steps->steps;
  for (const struct ecx_step* end = s + call->steps->count; s < end; s++) {
    if (s + 1 < end) xnn_prefetch_to_l1(s[1].context);
    call->status = ecx_run_step(s);
    if (call->status != xnn_status_success) return;
  }
}

bool ecx_invoke(xnn_runtime_t runtime, enum xnn_status* status) {
  if (runtime->ecx_steps == NULL && !ecx_list_steps(runtime)) return false;
  struct ecx_call call = {runtime->ecx_steps, xnn_status_success};
  pthreadpool_parallelize_1d(NULL, (pthreadpool_task_1d_t) ecx_run_steps, &call, 1,
                             PTHREADPOOL_FLAG_DISABLE_DENORMALS);
  *status = call.status;
  return true;
}

void ecx_drop_steps(xnn_runtime_t runtime) {
  xnn_release_simd_memory(runtime->ecx_steps);
  runtime->ecx_steps = NULL;
}
