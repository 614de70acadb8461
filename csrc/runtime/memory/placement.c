/* Placement: which inputs may be the caller's arrays, and which outputs their last writer may write
 * to the caller's memory. Neither may change a result. A planner gives one address to many tensors,
 * and the exporter elides view_copy by giving the view the address of its base, without an
 * instruction. */
#include "runtime/memory/placement.h"

#include "core/small.h"

/* ---- shared memory ----------------------------------------------------------------------- */

/* Returns the uses of a tensor and of all that views and moves connect with it, as one. */
static ec_use find_joint_use(const ec_uses *uses, size_t index) {
  ec_use joint = uses->rows[index];
  const size_t group = ec_use_group(uses, index);
  for (size_t k = 0; k < uses->m->tensor_count; k++) {
    const ec_use *u = &uses->rows[k];
    if (ec_use_group(uses, k) != group) continue;
    joint.outputs |= u->outputs;
    if (u->used && (!joint.used || u->last > joint.last)) joint.last = u->last;
    joint.used |= u->used;
  }
  return joint;
}

static bool may_write(const ec_use *u) {
  return u->written || (u->first_by_delegate && !u->delegate_reads);
}

/* True if tensor `k` is visible through the memory of input `index`: an elided view of it, a tensor
 * that is read before it is written, or one that is written before the input's last use. */
static bool is_input_visible_in(const ec_uses *uses, size_t index, const ec_use *joint, size_t k) {
  const ec_placement *input = &uses->m->placements[index], *other = &uses->m->placements[k];
  const ec_use *u = &uses->rows[k];
  if (k == index || !ec_placements_overlap(input, other)) return false;
  if (uses->m->has_jumps || u->inputs) return true;
  if (!u->used) return u->outputs != 0;
  if (may_write(u) && (joint->outputs || (joint->used && u->first <= joint->last))) return true;
  if (u->first_by_delegate) return input->offset == other->offset && input->nbytes == other->nbytes;
  return !u->first_overwrites;
}

/* True if the program changes the input. An input without planned memory is the caller's memory in
 * the reference, where it may be an output. */
static bool is_input_mutated(const ec_uses *uses, const ec_value *value) {
  return value->kind == EC_KIND_TENSOR && uses->rows[ec_use_index(uses, value)].written &&
         ec_placement_of(uses->m, value->as.tensor)->arena == 0;
}

static bool can_use_in_place(const ec_uses *uses, const ec_value *value) {
  if (value->kind != EC_KIND_TENSOR) return false;
  size_t index = ec_use_index(uses, value);
  if (uses->rows[index].written || uses->rows[index].inputs > 1) return false;
  const ec_use joint = find_joint_use(uses, index);
  for (size_t k = 0; k < uses->m->tensor_count; k++)
    if (is_input_visible_in(uses, index, &joint, k)) return false;
  return true;
}

static bool has_fixed_shape(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR && v->as.tensor->dynamism == EC_STATIC;
}

/* True if the memory of tensor `k` has a value that is read after instruction `first`: in this
 * call, or as state in the next one. */
static bool is_read_after(const ec_uses *uses, size_t k, size_t first) {
  const ec_use *u = &uses->rows[k];
  const bool is_state = !EC_IS_SMALL && uses->has_elided_views && ec_use_is_carried(uses, k) &&
                        !u->delegate_overwrites;
  return u->outputs || is_state || (u->used && u->last > first);
}

/* True if the output may be written to the caller's memory: from its first write on, only the
 * output itself may be visible through its planned memory. */
static bool can_write_directly(const ec_uses *uses, const ec_value *v) {
  const ec_method *m = uses->m;
  if (!has_fixed_shape(v) || m->has_jumps) return false;
  size_t index = ec_use_index(uses, v);
  const ec_use *u = &uses->rows[index];
  const ec_placement *p = &m->placements[index];
  if (!u->used || u->is_view || u->inputs || u->outputs > 1 || p->flags & EC_TENSOR_READONLY ||
      (p->data && p->named))
    return false;
  /* state, or zeros: an output without planned memory that is read before it is written */
  if (!u->first_overwrites && (p->data || !u->first_by_delegate)) return false;
  for (size_t k = 0; k < m->tensor_count; k++)
    if (k != index && ec_placements_overlap(p, &m->placements[k]) &&
        is_read_after(uses, k, u->first))
      return false;
  return true;
}

/* ---- unplanned memory -------------------------------------------------------------------- */

/* Allocates named tensors without planned memory: mutable buffers exported with
 * alloc_mutable_buffers=False. */
static ec_status allocate_unplanned_state(const ec_uses *uses, ec_error *err) {
  ec_method *m = uses->m;
  for (size_t i = 0; i < m->attribute_count; i++) {
    ec_tensor *t = m->attributes[i].tensor;
    ec_placement *p = ec_placement_of(m, t);
    const ec_use *u = &uses->rows[t - m->tensors];
    if (p->data || u->inputs || u->is_view || p->nbytes == 0) continue;
    EC_TRY(ec_arena_array(&m->arena, p->nbytes, 1, "a mutable buffer", &p->data, err));
    t->data = p->data;
    t->capacity = p->capacity = p->nbytes;
    m->initials[m->initial_count++] = (ec_initial){p, NULL};
  }
  return EC_OK;
}

/* Finds moves into tensors that have no memory in any call. */
static void find_alias_moves(const ec_uses *uses) {
  for (size_t i = 0; i < uses->m->instr_count; i++) {
    ec_instr *in = &uses->m->instrs[i];
    if (in->kind != EC_INSTR_MoveCall || in->args[0]->kind != EC_KIND_TENSOR) continue;
    const size_t index = ec_use_index(uses, in->args[1]);
    ec_placement *p = &uses->m->placements[index];
    in->aliases = !p->data && !uses->rows[index].inputs && !p->staged &&
                  uses->m->tensors[index].dynamism != EC_DYNAMIC_UNBOUND;
    p->rebindable |= in->aliases;
  }
}

static ec_status list_rebindable(const ec_uses *uses, ec_error *err) {
  ec_method *m = uses->m;
  EC_TRY(ec_arena_array(&m->arena, m->tensor_count, sizeof *m->rebindable, "an analysis",
                        &m->rebindable, err));
  for (size_t i = 0; i < m->tensor_count; i++) {
    const ec_use *u = &uses->rows[i];
    ec_placement *p = &m->placements[i];
    p->rebindable |= u->freed || u->is_view || u->inputs || u->outputs ||
                     m->tensors[i].dynamism == EC_DYNAMIC_UNBOUND;
    if (p->rebindable) m->rebindable[m->rebindable_count++] = &m->tensors[i];
  }
  return EC_OK;
}

static void mark_written(void *user, const ec_value *v, ec_access how) {
  const ec_method *m = user;
  if (how != EC_READS) m->written[v->as.tensor - m->tensors] = true;
}

void ec_mark_written(const ec_method *m, const ec_instr *in) {
  ec_visit_accesses(in, mark_written, (void *)(uintptr_t)m);
}

/* Marks the tensors that instructions write, and no initial state, if jumps may skip them. */
static ec_status mark_all_written(ec_method *m, ec_error *err) {
  if (!m->has_jumps) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, m->tensor_count, sizeof *m->written, "an analysis", &m->written,
                        err));
  for (size_t i = 0; i < m->instr_count; i++) ec_mark_written(m, &m->instrs[i]);
  for (size_t i = 0; i < m->initial_count; i++)
    m->written[m->initials[i].placement - m->placements] = false;
  return EC_OK;
}

static void place_output(const ec_uses *uses, size_t index, bool compare) {
  ec_output_slot *slot = &uses->m->outputs[index];
  const ec_value *v = slot->value;
  slot->direct = compare && can_write_directly(uses, v);
  if (v->kind != EC_KIND_TENSOR) return;
  const size_t at = ec_use_index(uses, v);
  const ec_use *u = &uses->rows[at];
  const bool *written = uses->m->written;
  ec_placement *p = &uses->m->placements[at];
  const bool is_own = !u->is_view && !u->inputs;
  slot->needs_staging =
      !v->as.tensor->data && is_own && v->as.tensor->dynamism != EC_DYNAMIC_UNBOUND;
  p->staged |= slot->needs_staging;
  /* It has the last call's value, or another tensor's, if jumps skip all that write it. */
  slot->may_be_skipped = written && written[at] && is_own && !p->named &&
                         (u->first_overwrites || u->delegate_overwrites);
}

ec_status ec_place_tensors(ec_method *m, const ec_uses *uses, ec_error *err) {
  EC_TRY(allocate_unplanned_state(uses, err));
  const bool compare = ec_can_compare(m->input_count + m->output_count, m->tensor_count);
  for (size_t i = 0; i < m->input_count; i++) {
    m->inputs[i].in_place = compare && can_use_in_place(uses, m->inputs[i].value);
    m->inputs[i].mutated = is_input_mutated(uses, m->inputs[i].value);
  }
  EC_TRY(mark_all_written(m, err));
  for (size_t i = 0; i < m->output_count; i++) place_output(uses, i, compare);
  find_alias_moves(uses);
  return list_rebindable(uses, err);
}
