/* Joined calls: which loops may run block by block, where results lie meanwhile, and chains. */
#include "kernels/pointwise/joined.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/pointwise/chain.h"

enum {
  BLOCK = 1024,  /* elements: a multiple of EC_ITER_UNIT */
  BUFFERS = 4,   /* blocks of results that only other loops read */
  ITEM = 4,      /* bytes of their largest element */
  APART = 64,    /* bytes between buffers, whose addresses then differ modulo the page size */
  LINE = 64      /* bytes: a vector that crosses cache lines takes two accesses */
};

/* ---- order ------------------------------------------------------------------------------- */

static int64_t count_elements(const ec_iter *it) {
  int64_t n = 1;
  for (size_t d = 0; d < it->rank; d++) n *= it->sizes[d];
  return n;
}

/* True if element i of the walk is element i of the operand's memory. */
static bool is_linear(const ec_joined_loop *l, size_t k) {
  int64_t stride = (int64_t)l->item[k];
  for (size_t d = 0; d < l->it.rank; stride *= l->it.sizes[d++])
    if (l->it.strides[k][d] != stride) return false;
  return true;
}

/* Finds the first byte of an operand, and the one after its last. */
static void find_extent(const ec_joined_loop *l, size_t k, uintptr_t *from, uintptr_t *to) {
  *from = *to = (uintptr_t)l->it.at[k];
  *to += l->item[k];
  for (size_t d = 0; d < l->it.rank; d++) {
    const int64_t reach = l->it.strides[k][d] * (l->it.sizes[d] - 1);
    *(reach < 0 ? from : to) += (uintptr_t)reach;
  }
}

/* True if blocks of the output of `writer` and of operand k of `other` are the same elements, or
 * if they have no memory in common. */
static bool is_separable(const ec_joined_loop *writer, const ec_joined_loop *other, size_t k) {
  uintptr_t a, a_end, b, b_end;
  find_extent(writer, 0, &a, &a_end);
  find_extent(other, k, &b, &b_end);
  if (a_end <= b || b_end <= a) return true;
  return a == b && writer->item[0] == other->item[k] && is_linear(other, k);
}

static bool may_join(const ec_joined *j, const ec_joined_loop *l) {
  if (!is_linear(l, 0)) return false;
  for (size_t i = 0; i < j->count; i++) {
    const ec_joined_loop *e = &j->loops[i];
    for (size_t k = 0; k < l->it.operands; k++)
      if (!is_separable(e, l, k)) return false;
    for (size_t k = 0; k < e->it.operands; k++)
      if (!is_separable(l, e, k)) return false;
  }
  return true;
}

static bool has_shape(const ec_joined *j, const ec_tensor *out) {
  return ec_tensor_same_sizes(&j->shape, out) && ec_tensor_same_layout(&j->shape, out);
}

bool ec_joined_take(ec_joined *j, const ec_tensor *out) {
  ec_joined_loop *l = &j->loops[j->count];
  if (l->it.rank == 0 || count_elements(&l->it) < j->least) return false;
  if ((j->count && !has_shape(j, out)) || !may_join(j, l)) return false;
  l->place = j->place;
  l->readers = j->readers;
  if (!j->count) j->shape = *out;
  j->count++;
  return true;
}

/* ---- buffers ----------------------------------------------------------------------------- */

/* Returns the buffer with the last result that a loop before `i` has written to this address; -1:
 * the address has it. */
static int find_buffer(const ec_joined *j, size_t i, const char *at) {
  while (i-- > 0)
    if (j->loops[i].it.at[0] == at) return j->loops[i].buffer[0];
  return -1;
}

/* Keeps the results that only later loops read in buffers while there are free ones. */
static void choose_buffers(ec_joined *j, size_t end) {
  size_t busy_until[BUFFERS] = {0};
  for (size_t i = 0; i < j->count; i++) {
    ec_joined_loop *l = &j->loops[i];
    for (size_t k = 1; k < l->it.operands; k++) l->buffer[k] = find_buffer(j, i, l->it.at[k]);
    l->buffer[0] = -1;
    if (l->readers <= l->place || l->readers >= end || l->item[0] > ITEM) continue;
    for (int b = 0; b < BUFFERS && l->buffer[0] < 0; b++) {
      if (i && busy_until[b] >= l->place) continue; /* also if this loop is its last reader */
      busy_until[b] = l->readers;
      l->buffer[0] = b;
    }
  }
}

/* ---- blocks ------------------------------------------------------------------------------ */

typedef struct buffers {
  _Alignas(LINE) uint64_t data[BUFFERS][(BLOCK * ITEM + APART) / 8];
} buffers;

/* A position in a walk: the inner loop's operands, and the index of its first element. */
typedef struct cursor {
  char *at[EC_JOINED_OPERANDS];
  int64_t index[EC_MAX_RANK];
} cursor;

/* Moves to element `first`. An operand in a buffer has the element at its start. */
static void seek(cursor *c, const ec_joined_loop *l, buffers *b, int64_t first) {
  const ec_iter *it = &l->it;
  int64_t rest = first;
  for (size_t d = 0; d + 1 < it->rank; d++) {
    c->index[d] = rest % it->sizes[d];
    rest /= it->sizes[d];
  }
  c->index[it->rank - 1] = rest;
  for (size_t k = 0; k < it->operands; k++) {
    const bool is_in_memory = l->buffer[k] < 0;
    c->at[k] = is_in_memory ? it->at[k] : (char *)b->data[l->buffer[k]];
    for (size_t d = 0; is_in_memory && d < it->rank; d++)
      c->at[k] += c->index[d] * it->strides[k][d];
  }
}

/* Moves to the start of the next inner loop. */
static void move_on(cursor *c, const ec_iter *it) {
  for (size_t d = 0; d + 1 < it->rank; d++) {
    const bool more = d && c->index[d] + 1 < it->sizes[d];
    for (size_t k = 0; k < it->operands; k++)
      c->at[k] += (more ? 1 : -c->index[d]) * it->strides[k][d];
    if (more) {
      c->index[d]++;
      return;
    }
    c->index[d] = 0;
  }
  for (size_t k = 0; k < it->operands; k++) c->at[k] += it->strides[k][it->rank - 1];
}

static void run_block(ec_joined_loop *l, buffers *b, int64_t from, int64_t to) {
  cursor c;
  seek(&c, l, b, from);
  for (int64_t left = to - from;;) {
    const int64_t n = ec_min_i64(l->it.sizes[0] - c.index[0], left);
    l->loop(n, c.at, l->it.step, &l->params);
    if ((left -= n) == 0) return;
    move_on(&c, &l->it);
  }
}

/* ---- chains ------------------------------------------------------------------------------ */

enum { LONGEST_CHAIN = 2 * EC_JOINED_LOOPS };

static float number_of(const ec_joined_loop *l, size_t k) {
  return *(const float *)(const void *)l->it.at[k];
}

/* Returns the operand that a step of a chain takes from the step before; 0: the loop cannot be one.
 * `before`: the loop before; NULL: this one is the first. Bounds are numbers. */
static size_t find_link(const ec_joined_loop *before, const ec_joined_loop *l) {
  size_t link = 0;
  const bool is_clamp = l->kind == EC_LOOP_CLAMP;
  if (l->kind < EC_LOOP_ADD || l->it.rank != 1) return 0;
  for (size_t k = l->it.operands - 1; k; k--) {
    const bool is_number = l->it.step[k] == 0;
    if (!is_number && l->it.step[k] != (int64_t)sizeof(float)) return 0;
    if (before ? l->it.at[k] == before->it.at[0] : !is_number) {
      if (before && (link || is_number)) return 0;
      link = k;
    }
    if (is_clamp && (k > 1) != is_number) return 0;
    if (is_clamp && is_number && number_of(l, k) != number_of(l, k)) return 0; /* NaN */
  }
  const bool has_factor = l->kind == EC_LOOP_ADD || l->kind == EC_LOOP_SUB ||
                          l->kind == EC_LOOP_SUB_OF;
  return has_factor && fabs(l->params.v[0].d) != 1 ? 0 : link;
}

/* Finds the chains. Only the last result of a chain is stored. */
static void find_chains(ec_joined *j) {
  for (size_t i = 0, end; i < j->count; i = end) {
    ec_joined_loop *first = &j->loops[i];
    end = i + 1;
    first->link = ec_chain_is_available() ? find_link(NULL, first) : 0;
    for (; first->link && end < j->count; end++) {
      const ec_joined_loop *before = &j->loops[end - 1];
      ec_joined_loop *l = &j->loops[end];
      l->link = find_link(before, l);
      if (before->buffer[0] < 0 || before->readers != l->place || !l->link) break;
    }
    first->chain = end - i;
  }
}

static ec_chain_form form_of(const ec_joined_loop *l) {
  const bool first = l->link == 1;
  switch (l->kind) {
  case EC_LOOP_ADD:
  case EC_LOOP_SUB:
    if (l->params.v[0].d > 0) return EC_CHAIN_ADD;
    return first ? EC_CHAIN_SUB : EC_CHAIN_SUB_OF;
  case EC_LOOP_SUB_OF:
    if (l->params.v[0].d > 0) return EC_CHAIN_ADD;
    return first ? EC_CHAIN_SUB_OF : EC_CHAIN_SUB;
  case EC_LOOP_DIV: return first ? EC_CHAIN_DIV : EC_CHAIN_DIV_OF;
  case EC_LOOP_CLAMP: return l->params.v[0].i ? EC_CHAIN_LOW : EC_CHAIN_HIGH;
  default: return EC_CHAIN_MUL;
  }
}

/* Adds the steps of a loop whose operands start at `at`; two for two bounds. */
static size_t add_steps(const ec_joined_loop *l, char *const *at, ec_chain_step *steps) {
  size_t n = 0;
  for (size_t k = 1; k < l->it.operands; k++) {
    if (k == l->link) continue;
    ec_chain_step *s = &steps[n++];
    *s = (ec_chain_step){.form = form_of(l)};
    if (l->it.step[k]) s->with = (const float *)(const void *)at[k];
    else s->number = number_of(l, k);
  }
  if (n == 2) steps[1].form = EC_CHAIN_HIGH;
  return n;
}

static void run_chain(const ec_joined_loop *first, buffers *b, int64_t from, int64_t to) {
  ec_chain_step steps[LONGEST_CHAIN];
  cursor c;
  const char *in = NULL;
  size_t n = 0;
  for (size_t i = 0; i < first->chain; i++) {
    seek(&c, &first[i], b, from);
    if (!i) in = c.at[first->link];
    n += add_steps(&first[i], c.at, &steps[n]);
  }
  ec_chain_run(to - from, (float *)(void *)c.at[0], (const float *)(const void *)in, steps, n);
}

/* ---- runs -------------------------------------------------------------------------------- */

/* A chain of all loops has no buffers, and takes all blocks at once. */
static void run_blocks(void *user, size_t begin, size_t end) {
  ec_joined *j = user;
  const int64_t n = count_elements(&j->loops[0].it);
  const int64_t blocks = j->loops[0].chain == j->count ? (int64_t)(end - begin) : 1;
  buffers b;
  for (int64_t block = (int64_t)begin; block < (int64_t)end; block += blocks) {
    const int64_t from = block * BLOCK, to = ec_min_i64(from + blocks * BLOCK, n);
    for (size_t i = 0; i < j->count; i += j->loops[i].chain) {
      if (j->loops[i].chain > 1) run_chain(&j->loops[i], &b, from, to);
      else run_block(&j->loops[i], &b, from, to);
    }
  }
}

void ec_joined_run(ec_joined *j, size_t end, ec_threads *threads) {
  if (!j->count) return;
  const size_t n = (size_t)count_elements(&j->loops[0].it), blocks = (n - 1) / BLOCK + 1;
  const size_t cost = EC_ELEMENTWISE_COST * BLOCK * j->count;
  const size_t grain = EC_ITER_PIECE_COST / cost + 1;
  choose_buffers(j, end);
  find_chains(j);
  ec_threads_run(blocks * cost < EC_ITER_WHOLE_COST ? NULL : threads, blocks, grain, run_blocks, j);
  j->count = 0;
}
