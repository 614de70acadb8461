/* The dataflow of a run of kernel calls.
 *
 * A run becomes one call of a backend: it reads its inputs, then writes its outputs, and what lies
 * between is never in the method's memory. So each tensor that a call reads is resolved to the last
 * write of its memory: planners give one address to many tensors, and the exporter elides view_copy
 * by giving the view the address of its base. Such a view becomes a value with the elements of the
 * other. Memory that is written and read in any other way ends the run. An output is a result in
 * whose memory anything may read it after the run. */
#include "runtime/passes/delegate_run.h"

#include <string.h>

#include "runtime/arg.h"
#include "runtime/passes/fold.h"
#include "runtime/passes/turn.h"
#include "runtime/program_internal.h"

enum {
  NO_WRITE = -1,
  MAX_ITEMS = 64, /* of a list: many calls may share one */
  MAX_FOLDED = 4, /* calls in a row that computed a constant, as a backend sees them */
  COMPARISONS = 100 * 1000 * 1000
};

/* The value of a tensor at the current call of a run. */
struct ec_run_binding {
  ec_backend_value *value;
  ptrdiff_t write; /* the last one of its memory, when the value was made; NO_WRITE: an input */
};

typedef struct ec_run_binding binding;

/* ---- the whole method ------------------------------------------------------------------------ */

/* False when the comparisons are used up. */
static bool charge_comparisons(ec_run_analysis *c, size_t count) {
  c->room = count < c->room ? c->room - count : 0;
  return c->room > 0;
}

/* Notes the call that computed a constant, and its view. */
static void note_folded(ec_run_analysis *c, const ec_instr *in) {
  const size_t index = ec_use_index(c->uses, in->writes[0]);
  c->folding[index] = in;
  for (size_t k = 0; k < c->m->tensor_count; k++)
    if (c->m->placements[k].folded && ec_is_elided_view(c->uses, k, index)) c->folding[k] = in;
}

ec_status ec_analyse_runs(const ec_pass_context *p, ec_run_analysis *c, ec_error *err) {
  const ec_method *m = p->m;
  const size_t count = m->tensor_count;
  *c = (ec_run_analysis){.m = p->m, .uses = p->uses, .merged = p->merged, .room = COMPARISONS};
  EC_TRY(ec_arena_array(p->work, count, sizeof *c->grouped, "an analysis", &c->grouped, err));
  EC_TRY(ec_arena_array(p->work, count, sizeof *c->carried, "an analysis", &c->carried, err));
  EC_TRY(ec_arena_array(p->work, count, sizeof *c->bindings, "an analysis", &c->bindings, err));
  EC_TRY(ec_arena_array(p->work, count, sizeof *c->folding, "an analysis", &c->folding, err));
  c->instrs = m->chains[0].instrs;
  c->count = m->chains[0].count;
  for (size_t i = 0; i < c->count; i++)
    if (ec_is_folded(m, &c->instrs[i])) note_folded(c, &c->instrs[i]);
  for (size_t k = 0; k < count; k++) {
    const size_t group = ec_use_group(c->uses, k);
    if (group != k) c->grouped[k] = c->grouped[group] = true;
    c->carried[k] = ec_use_is_carried(c->uses, k);
  }
  return EC_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const char *check_read(const ec_run_analysis *c, const ec_value *v) {
  if (v->as.tensor->dynamism == EC_DYNAMIC_UNBOUND) return "a shape without bounds";
  return c->uses->rows[ec_use_index(c->uses, v)].freed ? "a tensor that is freed" : NULL;
}

/* State is written where it is: a failed call must not lose what was done before. */
static const char *check_write(const ec_run_analysis *c, const ec_value *v) {
  const size_t k = ec_use_index(c->uses, v);
  const ec_placement *p = &c->m->placements[k];
  const ec_use *use = &c->uses->rows[k];
  if (p->flags & EC_TENSOR_READONLY || p->folded || use->inputs) return "writes in place";
  if (c->carried[k]) return "writes state";
  if (use->is_view || (c->grouped[k] && !p->data)) return "writes to a view";
  return check_read(c, v);
}

static const char *check_arg(const ec_run_analysis *c, const ec_arg_spec *spec,
                             const ec_value *v) {
  const char *reason = NULL;
  if (spec->written && !spec->is_out) return "writes in place";
  if (v->kind == EC_KIND_TENSOR) return spec->written ? check_write(c, v) : check_read(c, v);
  if (v->kind > EC_KIND_BOOL && v->count > MAX_ITEMS) return "a long list";
  for (uint32_t i = 0; ec_is_tensor_list(v) && i < v->count && !reason; i++) {
    const ec_value *item = v->as.items[i];
    if (item->kind != EC_KIND_TENSOR) reason = "a list with None";
    else reason = spec->written ? check_write(c, item) : check_read(c, item);
  }
  if (spec->written) return ec_is_tensor_list(v) ? reason : "writes in place";
  return !reason && !ec_is_fixed(c->uses, v) ? "a number that changes" : reason;
}

static const char *check_call(const ec_run_analysis *c, const ec_instr *in) {
  const ec_op *op = in->op;
  const char *reason = NULL;
  if (op->custom) return "a custom operator";
  if (op->makes_view || op->returns_scalar) return "its result is not a new tensor";
  for (size_t i = 0; i < op->nargs && !reason; i++)
    reason = check_arg(c, &op->args[i], in->args[i]);
  return reason;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* True for a result that no instruction reads, by its own name or another: indices of a pooling. */
static bool is_unread(ec_run_analysis *c, size_t k) {
  const ec_use *use = &c->uses->rows[k];
  if (use->first != use->last || use->outputs || c->grouped[k] || c->m->placements[k].named)
    return false;
  if (!charge_comparisons(c, c->m->tensor_count)) return false;
  for (size_t j = 0; j < c->m->tensor_count; j++)
    if (ec_may_observe(c->uses, k, j)) return false;
  return true;
}

static ec_status make_value(ec_run_analysis *c, ec_value *v, size_t *number,
                            ec_backend_value **out, ec_error *err) {
  const ec_tensor *t = ec_turned(c->m, v)->as.tensor;
  ec_backend_arg view;
  EC_TRY(ec_arena_array(&c->work, 1, sizeof **out, "an analysis", out, err));
  ec_arg_view(ec_turned(c->m, v), &view);
  (*out)->tensor = view.as.tensor;
  (*out)->number = (uint32_t)(*number)++;
  (*out)->is_dynamic = t->dynamism != EC_STATIC;
  if (ec_is_constant_tensor(c->m, v->as.tensor)) {
    const size_t bytes = ec_program_bytes_from(c->m->program, t->data);
    (*out)->is_shared = bytes > 0;
    if (bytes) (*out)->tensor.capacity = bytes;
  } else {
    (*out)->tensor.data = NULL;
  }
  return EC_OK;
}

static ec_status view_call(ec_run_analysis *c, const ec_instr *in, ec_backend_kernel_call *out,
                           ec_backend_arg **args, ec_error *err) {
  EC_TRY(ec_arena_array(&c->work, in->op->nargs, sizeof **args, "an analysis", args, err));
  for (size_t i = 0; i < in->op->nargs; i++)
    EC_TRY(ec_arg_view_as(&in->op->args[i], ec_turned(c->m, in->args[i]), &c->work, &(*args)[i],
                          err));
  *out = (ec_backend_kernel_call){in->op->name, *args, in->op->nargs};
  return EC_OK;
}

/* Sets `from` of a constant, and of what that call reads first. */
static ec_status show_folding(ec_run_analysis *c, ec_value *v, ec_backend_value *value,
                              size_t *number, ec_error *err) {
  for (size_t i = 0; i < MAX_FOLDED && value; i++) {
    const ec_instr *in = c->folding[ec_use_index(c->uses, v)];
    ec_backend_value *first = NULL;
    ec_backend_kernel_call *call;
    ec_backend_arg *args;
    if (!in) return EC_OK;
    EC_TRY(ec_arena_array(&c->work, 1, sizeof *call, "an analysis", &call, err));
    EC_TRY(view_call(c, in, call, &args, err));
    for (size_t k = 0; k < in->op->nargs; k++) {
      ec_backend_value *arg;
      if (in->args[k]->kind != EC_KIND_TENSOR || in->op->args[k].written) continue;
      EC_TRY(make_value(c, in->args[k], number, &arg, err));
      args[k].slot = arg;
      if (k == 0) first = arg;
    }
    value->from = call;
    value = first;
    if (first) v = in->args[0];
  }
  return EC_OK;
}

/* True if a tensor has exactly the elements of another, in another shape. */
static bool is_same_memory(const ec_method *m, size_t a, size_t b) {
  const ec_placement *p = &m->placements[a], *q = &m->placements[b];
  return m->tensors[a].dynamism == EC_STATIC && m->tensors[b].dynamism == EC_STATIC &&
         m->tensors[a].dtype == m->tensors[b].dtype && ec_placements_equal(p, q);
}

/* Returns the last write of the run to the memory of tensor `k`; NO_WRITE: none. Folded constants
 * have left the memory that the planner gave them. */
static ptrdiff_t find_write(ec_run_analysis *c, const ec_delegate_run *r, size_t k) {
  const ec_placement *p = &c->m->placements[k];
  if (p->folded) return NO_WRITE;
  charge_comparisons(c, r->write_count);
  for (size_t i = r->write_count; i-- > 0;)
    if (r->writes[i].tensor == k ||
        ec_placements_overlap(p, &c->m->placements[r->writes[i].tensor]))
      return (ptrdiff_t)i;
  return NO_WRITE;
}

/* True if the run has written memory that tensor `k` may point into. */
static bool is_written_elsewhere(ec_run_analysis *c, const ec_delegate_run *r, size_t k) {
  const size_t group = ec_use_group(c->uses, k);
  if (!c->grouped[k] || !r->write_count) return false;
  if (!charge_comparisons(c, c->m->tensor_count)) return true;
  for (size_t j = 0; j < c->m->tensor_count; j++)
    if (ec_use_group(c->uses, j) == group && find_write(c, r, j) != NO_WRITE) return true;
  return false;
}

/* Resolves a tensor that a call reads. `*out` NULL: its value is not known. */
static ec_status read_tensor(ec_run_analysis *c, ec_delegate_run *r, ec_value *v,
                             ec_backend_value **out, ec_error *err) {
  const size_t k = ec_use_index(c->uses, v);
  const ptrdiff_t at = find_write(c, r, k);
  const ec_run_write *write = at == NO_WRITE ? NULL : &r->writes[at];
  binding *known = &c->bindings[k];
  *out = NULL;
  if (write && write->tensor == k) {
    if (!write->value->is_unread) *out = write->value;
    return EC_OK;
  }
  if (write && (write->value->is_unread || c->grouped[k] ||
                !is_same_memory(c->m, k, write->tensor)))
    return EC_OK;
  if (is_written_elsewhere(c, r, k)) return EC_OK;
  if (!known->value || known->write != at) {
    EC_TRY(make_value(c, v, &r->value_count, &known->value, err));
    known->write = at;
    known->value->same = write ? write->value : NULL;
    if (known->value->tensor.data)
      EC_TRY(show_folding(c, v, known->value, &r->value_count, err));
    if (!write && !known->value->tensor.data) {
      r->slots[r->input_count] = v;
      r->values[r->input_count++] = known->value;
    }
  }
  *out = known->value;
  return EC_OK;
}

/* ---- building a run -------------------------------------------------------------------------- */

/* Sets the value of each tensor that the call reads. `*known` false: one is not known. */
static ec_status resolve_reads(ec_run_analysis *c, ec_delegate_run *r, const ec_instr *in,
                               ec_backend_arg *args, bool *known, ec_error *err) {
  ec_backend_value *value;
  *known = true;
  for (size_t i = 0; i < in->op->nargs && *known; i++) {
    ec_value *v = in->args[i];
    if (in->op->args[i].written) continue;
    if (v->kind == EC_KIND_TENSOR) {
      EC_TRY(read_tensor(c, r, v, &value, err));
      args[i].slot = value;
      *known = value != NULL;
    }
    for (uint32_t k = 0; ec_is_tensor_list(v) && k < v->count && *known; k++) {
      EC_TRY(read_tensor(c, r, v->as.items[k], &value, err));
      args[i].as.list.items[k].slot = value;
      *known = value != NULL;
    }
  }
  return EC_OK;
}

static ec_status add_write(ec_run_analysis *c, ec_delegate_run *r, size_t at, ec_value *v,
                           ec_backend_arg *arg, ec_error *err) {
  ec_run_write *w = &r->writes[r->write_count++];
  *w = (ec_run_write){ec_use_index(c->uses, v), at, v, NULL};
  EC_TRY(make_value(c, v, &r->value_count, &w->value, err));
  w->value->is_unread = is_unread(c, w->tensor);
  arg->slot = w->value;
  return EC_OK;
}

static ec_status add_writes(ec_run_analysis *c, ec_delegate_run *r, size_t at, ec_backend_arg *args,
                            ec_error *err) {
  const ec_instr *in = &c->instrs[at];
  for (size_t i = 0; i < in->op->nargs; i++) {
    ec_value *v = in->args[i];
    if (!in->op->args[i].written) continue;
    if (v->kind == EC_KIND_TENSOR) EC_TRY(add_write(c, r, at, v, &args[i], err));
    for (uint32_t k = 0; ec_is_tensor_list(v) && k < v->count; k++)
      EC_TRY(add_write(c, r, at, v->as.items[k], &args[i].as.list.items[k], err));
  }
  return EC_OK;
}

static ec_status add_calls(ec_run_analysis *c, ec_delegate_run *r, ec_error *err) {
  for (size_t i = r->first; i < r->end; i++) {
    ec_backend_arg *args;
    bool known;
    if (ec_is_folded(c->m, &c->instrs[i])) continue;
    EC_TRY(view_call(c, &c->instrs[i], &r->calls[r->call_count], &args, err));
    EC_TRY(resolve_reads(c, r, &c->instrs[i], args, &known, err));
    if (!known || c->room == 0) {
      r->end = i;
      return EC_OK;
    }
    EC_TRY(add_writes(c, r, i, args, err));
    r->call_count++;
  }
  return EC_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

enum { UNTOUCHED, READ, OVERWRITTEN };

typedef struct later {
  ec_run_analysis *c;
  uint8_t *first; /* the first use after the run, by tensor */
  size_t end, at; /* of the run; the instruction */
} later;

/* True for a view without an instruction whose base is filled after the run, before it is read. */
static bool is_filled_later(const later *l, size_t k) {
  const ec_uses *uses = l->c->uses;
  if (!uses->rows[k].is_elided || !charge_comparisons(l->c, l->c->m->tensor_count)) return false;
  for (size_t j = 0; j < l->c->m->tensor_count; j++) {
    const ec_use *base = &uses->rows[j];
    if (j != k && base->used && base->first_overwrites && base->first >= l->end &&
        base->first < l->at && l->c->m->tensors[j].dynamism == EC_STATIC &&
        ec_placement_covers(&l->c->m->placements[j], &l->c->m->placements[k]))
      return true;
  }
  return false;
}

/* True for the out of an et_view: from there on, it has the contents of its base, which is read. */
static bool is_made_here(const later *l, const ec_value *v) {
  const ec_instr *in = &l->c->instrs[l->at];
  return in->op && in->op->makes_view && in->args[2] == v;
}

static void note_later(void *user, const ec_value *v, ec_access how) {
  const later *l = user;
  charge_comparisons(l->c, 1);
  const size_t k = ec_use_index(l->c->uses, v);
  if (l->first[k] != UNTOUCHED) return;
  const bool is_new = how == EC_OVERWRITES || is_made_here(l, v) || is_filled_later(l, k);
  l->first[k] = is_new ? OVERWRITTEN : READ;
}

/* Finds tensors that are read after the run before they are overwritten: outs are the last
 * arguments of an operator. A tensor may be read under the name of another one of its group. */
static ec_status find_later_reads(ec_run_analysis *c, size_t end, uint8_t **out, ec_error *err) {
  const ec_method *m = c->m;
  EC_TRY(ec_arena_array(&c->work, m->tensor_count, 1, "an analysis", out, err));
  later l = {c, *out, end, end};
  for (size_t i = end; i < c->count && c->room; i++) {
    if (ec_is_folded(c->m, &c->instrs[i])) continue;
    l.at = i;
    ec_visit_accesses(&c->instrs[i], note_later, &l);
  }
  for (size_t k = 0; k < m->tensor_count; k++)
    if (c->carried[k] || ((*out)[k] == UNTOUCHED && c->uses->rows[k].outputs)) (*out)[k] = READ;
  for (size_t k = 0; k < m->tensor_count; k++)
    if (c->grouped[k] && (*out)[k] == READ) (*out)[ec_use_group(c->uses, k)] = READ;
  for (size_t k = 0; k < m->tensor_count; k++)
    if (c->grouped[k] && (*out)[ec_use_group(c->uses, k)] == READ) (*out)[k] = READ;
  return EC_OK;
}

/* Marks the writes that are read after the run. Returns false and shortens the run if one of them
 * is not in memory as it was written: outputs must not overlap. */
static bool mark_outputs(ec_run_analysis *c, ec_delegate_run *r, const uint8_t *first,
                         bool *marks) {
  for (size_t k = 0; k < c->m->tensor_count; k++) {
    const ptrdiff_t at = first[k] == READ ? find_write(c, r, k) : NO_WRITE;
    if (at == NO_WRITE) continue;
    const ec_run_write *w = &r->writes[at];
    const ptrdiff_t last = find_write(c, r, w->tensor);
    if (last == at && !w->value->is_unread &&
        (w->tensor == k ||
         (!w->value->is_dynamic &&
          ec_placement_covers(&c->m->placements[w->tensor], &c->m->placements[k])))) {
      marks[at] = true;
      continue;
    }
    r->end = r->writes[last].instr;
    return false;
  }
  return c->room > 0;
}

static ec_status list_outputs(ec_run_analysis *c, ec_delegate_run *r, bool *whole, ec_error *err) {
  uint8_t *first;
  bool *marks;
  EC_TRY(find_later_reads(c, r->end, &first, err));
  EC_TRY(ec_arena_array(&c->work, r->write_count, sizeof *marks, "an analysis", &marks, err));
  *whole = mark_outputs(c, r, first, marks);
  for (size_t i = 0; *whole && i < r->write_count; i++) {
    if (!marks[i]) continue;
    r->slots[r->input_count + r->output_count] = r->writes[i].slot;
    r->values[r->input_count + r->output_count++] = r->writes[i].value;
  }
  return EC_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ec_status alloc_run(ec_run_analysis *c, ec_delegate_run *r, ec_error *err) {
  size_t args = 0;
  ec_arena *scratch = &c->work;
  for (size_t i = r->first; i < r->end; i++) {
    args += c->instrs[i].count;
    for (size_t k = 0; k < c->instrs[i].count; k++)
      if (ec_is_tensor_list(c->instrs[i].args[k])) args += c->instrs[i].args[k]->count;
  }
  EC_TRY(ec_arena_array(scratch, r->end - r->first, sizeof *r->calls, "an analysis", &r->calls,
                        err));
  EC_TRY(ec_arena_array(scratch, r->end - r->first, 1, "an analysis", &r->refused, err));
  EC_TRY(ec_arena_array(scratch, args, sizeof *r->writes, "an analysis", &r->writes, err));
  EC_TRY(ec_arena_array(scratch, args, 2 * sizeof *r->slots, "an analysis", &r->slots, err));
  return ec_arena_array(scratch, args, 2 * sizeof *r->values, "an analysis", &r->values, err);
}

ec_status ec_view_call(ec_run_analysis *c, const ec_instr *in, ec_backend_kernel_call *out,
                        const char **reason, ec_error *err) {
  ec_backend_arg *args;
  size_t number = 0;
  ec_arena_reset(&c->work);
  *reason = check_call(c, in);
  if (*reason) return EC_OK;
  EC_TRY(view_call(c, in, out, &args, err));
  for (size_t i = 0; i < in->op->nargs; i++) {
    ec_value *v = in->args[i];
    ec_backend_value *value;
    if (v->kind == EC_KIND_TENSOR) {
      EC_TRY(make_value(c, v, &number, &value, err));
      value->is_unread = in->op->args[i].written && is_unread(c, ec_use_index(c->uses, v));
      args[i].slot = value;
    }
    for (uint32_t k = 0; ec_is_tensor_list(v) && k < v->count; k++) {
      EC_TRY(make_value(c, v->as.items[k], &number, &value, err));
      value->is_unread =
          in->op->args[i].written && is_unread(c, ec_use_index(c->uses, v->as.items[k]));
      args[i].as.list.items[k].slot = value;
    }
  }
  return EC_OK;
}

ec_status ec_build_run(ec_run_analysis *c, size_t first, size_t end, ec_delegate_run *out,
                             ec_error *err) {
  bool whole = false;
  while (!whole && first < end && c->room) {
    *out = (ec_delegate_run){.first = first, .end = end};
    ec_arena_reset(&c->work);
    memset(c->bindings, 0, c->m->tensor_count * sizeof *c->bindings);
    charge_comparisons(c, c->m->tensor_count);
    EC_TRY(alloc_run(c, out, err));
    EC_TRY(add_calls(c, out, err));
    end = out->end;
    EC_TRY(list_outputs(c, out, &whole, err));
    end = out->end;
  }
  if (!whole) *out = (ec_delegate_run){.first = first, .end = first};
  return EC_OK;
}
