/* State of a method as one copy of bytes. It consists of spans of memory, found once at load. */
#include "runtime/memory/saved_state.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/llm/kv_cache.h"

/* True if tensor `index` has a value from an earlier call, for all that the file shows: it has
 * memory of its own, and the first instruction that uses it does not overwrite it. The outputs of
 * delegates are defined by them. */
static bool keeps_value(const ec_uses *uses, size_t index) {
  const ec_placement *p = &uses->m->placements[index];
  const ec_use *u = &uses->rows[index];
  if (!p->arena || !p->nbytes || p->flags & EC_TENSOR_READONLY) return false;
  if (u->inputs || u->is_view || !u->used) return false;
  return u->first_by_delegate ? p->kept : !u->first_overwrites;
}

/* Marks tensors with an initial value, and inputs of the delegate that uses them first. */
static void mark_kept(const ec_uses *uses) {
  const ec_method *m = uses->m;
  for (size_t i = 0; i < m->initial_count; i++)
    m->placements[m->initials[i].placement - m->placements].kept = true;
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    for (size_t a = 0; in->delegate && a < in->outputs_from; a++) {
      if (in->args[a]->kind != EC_KIND_TENSOR) continue;
      const size_t index = ec_use_index(uses, in->args[a]);
      m->placements[index].kept |= uses->rows[index].first == i;
    }
  }
}

static int compare_spans(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const ec_span *)a)->data;
  const uintptr_t y = (uintptr_t)((const ec_span *)b)->data;
  return (x > y) - (x < y);
}

/* Sorts spans and joins those that overlap; returns their number. */
static size_t join_spans(ec_span *spans, size_t count) {
  if (!count) return 0;
  qsort(spans, count, sizeof *spans, compare_spans);
  size_t last = 0;
  for (size_t i = 1; i < count; i++) {
    ec_span *s = &spans[last];
    if (spans[i].data >= s->data + s->size) {
      spans[++last] = spans[i];
      continue;
    }
    const size_t end = (size_t)(spans[i].data - s->data) + spans[i].size;
    if (end > s->size) s->size = end;
  }
  return last + 1;
}

static void add_span(ec_method *m, void *data, size_t size) {
  if (size) m->state[m->state_count++] = (ec_span){data, size};
}

ec_status ec_find_state(ec_method *m, const ec_uses *uses, ec_error *err) {
  if (EC_IS_SMALL) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, m->tensor_count + m->initial_count + m->planned_count,
                        sizeof *m->state, "state", &m->state, err));
  mark_kept(uses);
  for (size_t i = 0; i < m->initial_count; i++) {
    const ec_placement *p = m->initials[i].placement;
    if (!p->arena) add_span(m, p->data, p->nbytes);
  }
  if (m->has_jumps)
    for (size_t i = 1; i < m->planned_count; i++) add_span(m, m->planned[i], m->planned_sizes[i]);
  for (size_t i = 0; !m->has_jumps && i < m->tensor_count; i++)
    if (keeps_value(uses, i)) add_span(m, m->placements[i].data, m->placements[i].nbytes);
  m->state_count = join_spans(m->state, m->state_count);
  return EC_OK;
}

/* Returns the size of the memory that keeps values. */
static size_t spans_size(const ec_method *m) {
  size_t size = 0; /* disjoint parts of memory: no overflow */
  for (size_t i = 0; i < m->state_count; i++) size += m->state[i].size;
  return size;
}

size_t ec_state_size(const ec_method *m) {
  ec_kv_cache *cache = m->options.kv_cache;
  size_t size = spans_size(m);
  if (!cache || ec_kv_cache_lock(cache, NULL) != EC_OK) return size;
  size += ec_kv_cache_state_size(cache);
  ec_kv_cache_unlock(cache);
  return size;
}

static ec_status save_cache(ec_kv_cache *cache, uint8_t *to, size_t size, ec_error *err) {
  EC_TRY(ec_kv_cache_lock(cache, err));
  const bool same = ec_kv_cache_state_size(cache) == size;
  if (same) ec_kv_cache_save(cache, to);
  ec_kv_cache_unlock(cache);
  return same ? EC_OK : ec_fail(err, EC_INVALID_STATE, "another method, which shares the KV cache, "
                                "was running: no copy of the state was made");
}

ec_status ec_state_save(const ec_method *m, uint8_t *to, size_t size, ec_error *err) {
  ec_kv_cache *cache = m->options.kv_cache;
  const size_t own = spans_size(m);
  if (cache) EC_TRY(save_cache(cache, to + own, size - own, err));
  for (size_t i = 0; i < m->state_count; to += m->state[i++].size)
    memmove(to, m->state[i].data, m->state[i].size); /* an attribute may be the caller's array */
  return EC_OK;
}

static ec_status restore_cache(ec_kv_cache *cache, const uint8_t *from, size_t size,
                               ec_error *err) {
  EC_TRY(ec_kv_cache_lock(cache, err));
  const ec_status status = ec_kv_cache_restore(cache, from, size, err);
  ec_kv_cache_unlock(cache);
  return status;
}

ec_status ec_state_restore(const ec_method *m, const uint8_t *from, size_t size, ec_error *err) {
  ec_kv_cache *cache = m->options.kv_cache;
  const size_t own = spans_size(m);
  if (cache ? size < own : size != own)
    return ec_fail(err, EC_INVALID_ARGUMENT, "the state of method '%s' has %zu bytes%s, found %zu",
                   m->name, own, cache ? " and those of its KV cache" : "", size);
  if (cache) EC_TRY(restore_cache(cache, from + own, size - own, err));
  for (size_t i = 0; i < m->state_count; from += m->state[i++].size)
    memmove(m->state[i].data, from, m->state[i].size);
  return EC_OK;
}
