/* Runs of pointwise calls on large tensors, which run block by block.
 *
 * The operators are those with a `loop` in kernels/ops.def. Here is the proof that a result is read
 * by calls of its run only. Shapes, addresses and dtypes are those of each call:
 * kernels/pointwise/joined.h. */
#include "runtime/passes/join.h"

enum { MIN_ELEMENTS = 1 << 14 }; /* of a result: smaller ones stay in the cache between calls */

/* True if the kernel ends with a loop for these arguments. */
static bool has_loop(const ec_uses *uses, const ec_instr *in) {
  if (in->op->loop != EC_LOOP_POWER) return in->op->loop != EC_LOOP_NONE;
  const double exponent = ec_scalar_double(ec_value_scalar(in->args[1]));
  return ec_is_fixed(uses, in->args[1]) && exponent != 0 && exponent != 1;
}

/* True if the call runs in its place, at least with the shapes of some calls. */
static bool is_in_place(const ec_method *m, size_t at) {
  return ec_plan_is(m, at, EC_NO_PASS) || ec_plan_is(m, at, EC_PASS_attend);
}

static bool is_joinable(const ec_uses *uses, size_t at) {
  const ec_instr *in = &uses->m->instrs[at];
  if (!in->op || in->op->custom || !is_in_place(uses->m, at)) return false;
  if (in->op->loop == EC_LOOP_NONE || in->write_count != 1) return false;
  return in->writes[0]->as.tensor->numel_bound >= MIN_ELEMENTS && has_loop(uses, in);
}

/* True if every other tensor in the memory of tensor `index` is dead when instruction `at` writes
 * it, or is written after `end`, its last reader, begins. Hostile plans share the memory of values
 * that are still read. */
static bool has_memory_alone(const ec_uses *uses, size_t index, size_t at, size_t end) {
  const ec_placement *placements = uses->m->placements;
  for (size_t k = 0; k < uses->m->tensor_count; k++) {
    const ec_use *use = &uses->rows[k];
    if (k == index || !ec_placements_overlap(&placements[index], &placements[k])) continue;
    const bool before = !use->outputs && use->last <= at, after = !use->inputs && use->first >= end;
    if (!before && !after) return false;
  }
  return true;
}

/* Returns how many calls later the result of call `at` is read last; 0 if anything after the run,
 * whose last call is `last`, may read it. */
static uint8_t count_readers(const ec_uses *uses, size_t at, size_t last) {
  const size_t index = ec_use_index(uses, uses->m->instrs[at].writes[0]);
  const size_t end = uses->rows[index].last;
  const bool is_alone = ec_is_private(uses, index, at, last) &&
                        has_memory_alone(uses, index, at, end);
  return is_alone ? (uint8_t)(end - at) : 0;
}

enum { MAX_CALLS = 64 }; /* of a run, with the folded ones between them */

/* Adds the runs that begin with each call from `from` to `to`: a run may end anywhere. */
static ec_status join_run(const ec_uses *uses, size_t from, size_t to, ec_error *err) {
  ec_method *m = uses->m;
  for (size_t i = from; i < to; i++) {
    const size_t count = to - i < MAX_CALLS ? to - i : MAX_CALLS;
    if (ec_plan_is(m, i, EC_PASS_fold)) continue;
    const ec_step step = {.kind = EC_STEP_Joined, .pass = EC_PASS_join, .first = (uint32_t)i,
                          .count = (uint32_t)count, .run = &m->instrs[i],
                          .readers = count_readers(uses, i, i + count - 1)};
    EC_TRY(ec_plan_add(m, step, true, err));
    m->plan.changed[EC_PASS_join]++;
  }
  return EC_OK;
}

/* Returns the end of the run that begins with instruction `i`: calls that can be joined, and folded
 * ones, which do nothing. */
static size_t find_end(const ec_uses *uses, size_t i) {
  size_t end = i;
  for (; i < uses->m->instr_count; i++) {
    if (ec_plan_is(uses->m, i, EC_PASS_fold)) continue;
    if (!is_joinable(uses, i)) break;
    end = i + 1;
  }
  return end;
}

ec_status ec_join_calls(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  for (size_t i = 0, end; i < m->instr_count; i = end > i ? end : i + 1) {
    end = ec_plan_is(m, i, EC_PASS_fold) ? i : find_end(p->uses, i);
    if (end < i + 2) continue;
    if (!m->joined) {
      EC_TRY(ec_arena_array(&m->arena, 1, sizeof *m->joined, "joined calls", &m->joined, err));
      m->joined->least = MIN_ELEMENTS;
    }
    EC_TRY(join_run(p->uses, i, end, err));
  }
  return EC_OK;
}
