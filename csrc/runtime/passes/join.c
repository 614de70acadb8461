/* Runs of pointwise calls on large tensors, which run block by block.
 *
 * Here are the operators, and the proof that a result is read by calls of its run only. Shapes,
 * addresses and dtypes are those of each call: kernels/pointwise/joined.h. */
#include "runtime/passes/join.h"

#include <string.h>

enum { LEAST = 1 << 14 }; /* elements: smaller results stay in the cache between calls */

/* Operators that end with one loop, without reading what others have computed before it. Sorted. */
static const struct row {
  const char *name;
  ec_joined_kind kind;
} rows[] = {
#define EC_JOINED(name, kind) {name, EC_JOINED_##kind},
#include "runtime/passes/joined.def"
#undef EC_JOINED
};

/* Returns the operator's row, or NULL. */
static const struct row *find_row(const char *name) {
  size_t low = 0, high = sizeof rows / sizeof rows[0];
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const int order = strcmp(name, rows[middle].name);
    if (order == 0) return &rows[middle];
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return NULL;
}

/* True if the exponent is neither 0 nor 1, which need no loop. */
static bool has_loop(const ec_uses *uses, const ec_instr *in) {
  if (strcmp(in->op->name, "aten::pow.Tensor_Scalar_out") != 0) return true;
  const double exponent = ec_scalar_double(ec_value_scalar(in->args[1]));
  return ec_is_fixed(uses, in->args[1]) && exponent != 0 && exponent != 1;
}

static bool is_joinable(const ec_uses *uses, const ec_instr *in) {
  if (!in->op || in->op->custom || in->fused || in->fusion) return false;
  if (!find_row(in->op->name) || in->write_count != 1) return false;
  return in->writes[0]->as.tensor->numel_bound >= LEAST && has_loop(uses, in);
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

enum { LONGEST = 64 }; /* calls of a run, with the folded ones between them */

static void join_run(const ec_uses *uses, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    ec_instr *in = &uses->m->instrs[i];
    const size_t most = to - i < LONGEST ? to - i : LONGEST;
    if (in->folded) continue;
    in->joined = (uint8_t)most;
    in->joined_kind = (uint8_t)find_row(in->op->name)->kind;
    in->readers = count_readers(uses, i, i + most - 1);
  }
}

/* Returns the end of the run that begins with instruction `i`: calls that can be joined, and folded
 * ones, which do nothing. */
static size_t find_end(const ec_uses *uses, size_t i) {
  const ec_method *m = uses->m;
  size_t end = i;
  for (; i < m->instr_count; i++) {
    const bool joinable = is_joinable(uses, &m->instrs[i]);
    if (!joinable && !m->instrs[i].folded) break;
    if (joinable && !m->instrs[i].folded) end = i + 1;
  }
  return end;
}

ec_status ec_join_calls(ec_method *m, const ec_uses *uses, ec_error *err) {
  if (m->has_jumps || m->chain_count != 1 || m->options.reference_kernels) return EC_OK;
  if (!ec_can_compare(m->tensor_count, m->tensor_count)) return EC_OK;
  for (size_t i = 0, end; i < m->instr_count; i = end > i ? end : i + 1) {
    end = m->instrs[i].folded ? i : find_end(uses, i);
    if (end < i + 2) continue;
    if (!m->joined) {
      EC_TRY(ec_arena_array(&m->arena, 1, sizeof *m->joined, "joined calls", &m->joined, err));
      m->joined->least = LEAST;
      ec_find_elided_views(uses);
    }
    join_run(uses, i, end);
  }
  return EC_OK;
}
