/* The memory plan: first fit, in order of first use. */
#include "plan.h"

#include <string.h>

enum { ALIGN = 64, MAX_SEARCHED_BLOCKS = 2048 };

/* The calls between which a value is needed; `first` is SIZE_MAX if none uses it. */
typedef struct lifetime {
  size_t first, last;
} lifetime;

/* A tensor with memory at the current call, by offset. */
typedef struct block {
  uint64_t begin, end;
  size_t last;
} block;

typedef struct planner {
  ect_program *p;
  lifetime *lives; /* by value */
  size_t *order;   /* lists of tensors by their first call: heads, then successors by value */
  block *blocks;
  size_t block_count;
} planner;

static void touch(lifetime *life, size_t first, size_t last) {
  if (life->first == SIZE_MAX || first < life->first) life->first = first;
  if (last > life->last) life->last = last;
}

/* Lists are touched by calls, then their items by the lists: a list may be in many calls. */
static void find_lifetimes(planner *pl) {
  const ect_program *p = pl->p;
  for (size_t c = 0; c < p->call_count; c++)
    for (size_t i = 0; i < p->calls[c].count; i++)
      touch(&pl->lives[p->items[p->calls[c].first + i]], c, c);
  for (size_t v = 0; v < p->value_count; v++) {
    const ect_value *list = &p->values[v];
    if (list->kind != ECT_TENSOR_LIST && list->kind != ECT_OPTIONAL_TENSOR_LIST) continue;
    for (size_t i = 0; i < list->as.list.count; i++) {
      const int64_t item = p->items[list->as.list.first + i];
      if (item >= 0 && pl->lives[v].first != SIZE_MAX)
        touch(&pl->lives[item], pl->lives[v].first, pl->lives[v].last);
    }
  }
}

/* Keeps values from before a loop until its end, if a round reads them. The jump back of an inner
 * loop comes first. */
static void extend_loops(planner *pl) {
  const ect_program *p = pl->p;
  for (size_t c = 0; c < p->call_count; c++) {
    const size_t begin = p->calls[c].target;
    if (!p->calls[c].is_jump || begin > c) continue;
    for (size_t v = 0; v < p->value_count; v++) {
      lifetime *life = &pl->lives[v];
      if (life->first <= begin && life->last >= begin && life->last < c) life->last = c;
    }
  }
}

static void drop_finished(planner *pl, size_t call) {
  size_t kept = 0;
  for (size_t i = 0; i < pl->block_count; i++)
    if (pl->blocks[i].last >= call) pl->blocks[kept++] = pl->blocks[i];
  pl->block_count = kept;
}

/* Finds the first gap of `size` bytes. Beyond many blocks, the end: the cost stays linear. */
static uint64_t find_gap(planner *pl, uint64_t size, size_t last) {
  uint64_t at = 0;
  size_t i = 0;
  if (pl->block_count > MAX_SEARCHED_BLOCKS) i = pl->block_count;
  for (; i < pl->block_count && pl->blocks[i].begin < at + size; i++)
    if (pl->blocks[i].end > at) at = pl->blocks[i].end;
  if (pl->block_count > MAX_SEARCHED_BLOCKS) at = pl->blocks[pl->block_count - 1].end;
  memmove(&pl->blocks[i + 1], &pl->blocks[i], (pl->block_count - i) * sizeof *pl->blocks);
  pl->blocks[i] = (block){at, at + size, last};
  pl->block_count++;
  return at;
}

static bool place_value(planner *pl, size_t value, ect_plan *out) {
  const size_t tensor = pl->p->values[value].as.tensor;
  const ect_tensor *t = &pl->p->tensors[tensor];
  size_t bytes;
  if (!ect_tensor_bytes(t, &bytes) || bytes > INT64_MAX / 4) return false;
  const uint64_t size = ((uint64_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
  uint64_t *total = &out->sizes[t->role == ECT_STATE ? ECT_KEPT : ECT_WORK];
  if (t->role == ECT_CONSTANT || ect_is_unbounded(t)) return true;
  if (*total > INT64_MAX / 4) return false;
  if (t->role == ECT_STATE && pl->p->state_size) {
    out->offsets[tensor] = t->place;
    *total = pl->p->state_size;
    return true;
  }
  if (t->role == ECT_STATE) {
    out->offsets[tensor] = *total;
    *total += size;
    return true;
  }
  out->offsets[tensor] = find_gap(pl, size ? size : ALIGN, pl->lives[value].last);
  const uint64_t end = out->offsets[tensor] + size;
  if (end > *total) *total = end;
  return true;
}

/* Places tensors in order of their first call: a list of values for each call. */
static bool place_all(planner *pl, ect_plan *out) {
  const ect_program *p = pl->p;
  size_t *heads = pl->order, *next = pl->order + p->call_count + 1;
  for (size_t c = 0; c <= p->call_count; c++) heads[c] = SIZE_MAX;
  for (size_t v = p->value_count; v-- > 0;) {
    if (p->values[v].kind != ECT_TENSOR) continue;
    const size_t first = pl->lives[v].first;
    size_t *head = &heads[first < p->call_count ? first : p->call_count];
    next[v] = *head;
    *head = v;
  }
  for (size_t c = 0; c <= p->call_count; c++) {
    drop_finished(pl, c);
    for (size_t v = heads[c]; v != SIZE_MAX; v = next[v])
      if (!place_value(pl, v, out)) return false;
  }
  return true;
}

bool ect_plan_memory(ect_program *p, ect_plan *out) {
  const ec_host *host = p->host;
  planner pl = {.p = p};
  *out = (ect_plan){0};
  pl.lives = host->alloc((p->value_count + 1) * sizeof *pl.lives);
  pl.order = host->alloc((p->value_count + p->call_count + 2) * sizeof *pl.order);
  pl.blocks = host->alloc((p->tensor_count + 1) * sizeof *pl.blocks);
  out->offsets = host->alloc((p->tensor_count + 1) * sizeof *out->offsets);
  bool ok = pl.lives && pl.order && pl.blocks && out->offsets;
  for (size_t v = 0; ok && v < p->value_count; v++) pl.lives[v].first = SIZE_MAX;
  if (ok) find_lifetimes(&pl);
  for (size_t i = 0; ok && i < p->input_count; i++) touch(&pl.lives[p->inputs[i]], 0, 0);
  for (size_t i = 0; ok && i < p->output_count; i++)
    touch(&pl.lives[p->outputs[i]], p->call_count, p->call_count);
  if (ok) extend_loops(&pl);
  ok = ok && place_all(&pl, out);
  host->free(pl.lives);
  host->free(pl.order);
  host->free(pl.blocks);
  return ok;
}

void ect_plan_free(const ec_host *host, ect_plan *plan) {
  host->free(plan->offsets);
  plan->offsets = NULL;
}
