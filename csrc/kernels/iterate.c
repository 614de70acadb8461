/* Broadcast shapes and the strided walk. */
#include "kernels/iterate.h"

#include <string.h>

#include "core/checked.h"

void ec_iter_init(ec_iter *it, size_t rank, const int64_t *sizes) {
  it->operands = it->item = 0;
  it->rank = rank;
  it->unit = EC_ITER_UNIT;
  for (size_t d = 0; d < rank; d++) it->sizes[d] = sizes[rank - 1 - d];
}

void ec_iter_add(ec_iter *it, const void *data, size_t item, size_t rank, const int64_t *sizes,
                 const int64_t *strides) {
  size_t k = it->operands++;
  if (item > it->item) it->item = item;
  it->at[k] = (char *)data;
  it->step[k] = (int64_t)item;
  for (size_t d = 0; d < it->rank; d++) {
    bool moves = d < rank && sizes[rank - 1 - d] != 1;
    /* the byte strides of tensors without elements may overflow, but they are never used */
    uint64_t bytes = (uint64_t)(moves ? strides[rank - 1 - d] : 0) * item;
    it->strides[k][d] = (int64_t)bytes;
  }
}

void ec_iter_tensor(ec_iter *it, const ec_tensor *t) {
  ec_iter_add(it, t->data, ec_dtype_size(ec_tensor_dtype(t)), t->rank, t->sizes, t->strides);
}

/* True if dimension a belongs inside dimension b. The first operand that moves in both decides. */
static bool is_inner(const ec_iter *it, size_t a, size_t b) {
  for (size_t k = 0; k < it->operands; k++) {
    int64_t x = it->strides[k][a], y = it->strides[k][b];
    if (x < 0) x = -x;
    if (y < 0) y = -y;
    if (x != 0 && y != 0 && x != y) return x < y;
  }
  return false;
}

static void move_dim(ec_iter *it, size_t to, size_t from) {
  it->sizes[to] = it->sizes[from];
  for (size_t k = 0; k < it->operands; k++) it->strides[k][to] = it->strides[k][from];
}

static void swap_dims(ec_iter *it, size_t a, size_t b) {
  int64_t size = it->sizes[a];
  it->sizes[a] = it->sizes[b];
  it->sizes[b] = size;
  for (size_t k = 0; k < it->operands; k++) {
    int64_t stride = it->strides[k][a];
    it->strides[k][a] = it->strides[k][b];
    it->strides[k][b] = stride;
  }
}

static bool can_merge_dims(const ec_iter *it, size_t inner, size_t outer) {
  for (size_t k = 0; k < it->operands; k++)
    if (it->strides[k][outer] != it->strides[k][inner] * it->sizes[inner]) return false;
  return true;
}

/* Drops dimensions of size 1, sorts innermost first, merges. */
static void merge_dims(ec_iter *it) {
  size_t n = 0;
  for (size_t d = 0; d < it->rank; d++)
    if (it->sizes[d] != 1) move_dim(it, n++, d);
  for (size_t i = 1; i < n; i++)
    for (size_t j = i; j > 0 && is_inner(it, j, j - 1); j--) swap_dims(it, j, j - 1);
  size_t last = 0;
  for (size_t d = 1; d < n; d++) {
    if (can_merge_dims(it, last, d)) it->sizes[last] *= it->sizes[d];
    else move_dim(it, ++last, d);
  }
  it->rank = n ? last + 1 : 0;
}

bool ec_iter_start(ec_iter *it) {
  for (size_t d = 0; d < it->rank; d++)
    if (it->sizes[d] == 0) return false;
  merge_dims(it);
  if (it->rank == 0) { /* one element: steps stay the item sizes, so that it looks contiguous */
    it->count = 1;
    return true;
  }
  it->count = it->sizes[0];
  for (size_t k = 0; k < it->operands; k++) it->step[k] = it->strides[k][0];
  memset(it->index, 0, sizeof it->index);
  return true;
}

bool ec_iter_next(ec_iter *it) {
  for (size_t d = 1; d < it->rank; d++) {
    if (++it->index[d] < it->sizes[d]) {
      for (size_t k = 0; k < it->operands; k++) it->at[k] += it->strides[k][d];
      return true;
    }
    it->index[d] = 0;
    for (size_t k = 0; k < it->operands; k++)
      it->at[k] -= it->strides[k][d] * (it->sizes[d] - 1);
  }
  return false;
}

/* ---- pieces ------------------------------------------------------------------------------ */

enum { LANE = 4 };  /* bytes of an element of cost 1; more than one smaller element fits a lane */

static size_t units_of(const ec_iter *it, size_t d) {
  return d ? (size_t)it->sizes[d] : ((size_t)it->sizes[0] - 1) / (size_t)it->unit + 1;
}

/* Returns the outermost dimension that is long enough, else the one with most units. */
static size_t cut_dim(const ec_iter *it, size_t pieces) {
  size_t best = it->rank - 1;
  for (size_t d = it->rank; d-- > 0;) {
    if (units_of(it, d) >= pieces) return d;
    if (units_of(it, d) > units_of(it, best)) best = d;
  }
  return best;
}

size_t ec_iter_pieces(const ec_call *c, const ec_iter *it, size_t cost) {
  size_t total = cost, most = ec_threads_count(c->threads) * EC_ITER_PIECES;
  const size_t part = it->item < LANE ? LANE / it->item : 1;
  if (!c->threads || it->rank == 0) return 1;
  for (size_t d = 0; d < it->rank && total < most * EC_ITER_WHOLE_COST * part; d++)
    total *= (size_t)it->sizes[d];
  total /= part;
  if (total < EC_ITER_WHOLE_COST) return 1;
  if (total / EC_ITER_PIECE_COST < most) most = total / EC_ITER_PIECE_COST;
  size_t units = units_of(it, cut_dim(it, most));
  return most < units ? most : units;
}

typedef struct cut {
  const ec_iter *it;
  size_t dim, pieces;
  ec_iter_fn fn;
  void *user;
} cut;

static void run_pieces(void *user, size_t begin, size_t end) {
  const cut *w = user;
  const size_t d = w->dim;
  const int64_t units = (int64_t)units_of(w->it, d), pieces = (int64_t)w->pieces;
  const int64_t unit = d ? 1 : w->it->unit;
  for (size_t piece = begin; piece < end; piece++) {
    ec_iter it = *w->it;
    int64_t from = ec_share(units, (int64_t)piece, pieces) * unit;
    int64_t to = ec_min_i64(ec_share(units, (int64_t)piece + 1, pieces) * unit, it.sizes[d]);
    for (size_t k = 0; k < it.operands; k++) it.at[k] += from * it.strides[k][d];
    it.sizes[d] = to - from;
    it.count = it.sizes[0];
    w->fn(w->user, &it, piece);
  }
}

void ec_iter_run(const ec_call *c, const ec_iter *it, size_t pieces, ec_iter_fn fn, void *user) {
  cut w = {it, pieces > 1 ? cut_dim(it, pieces) : 0, pieces, fn, user};
  if (pieces > 1) {
    ec_parallel_for(c, pieces, 1, run_pieces, &w);
    return;
  }
  ec_iter whole = *it;
  fn(user, &whole, 0);
}

bool ec_broadcasts_to(size_t rank, const int64_t *sizes, size_t to_rank, const int64_t *to) {
  if (rank > to_rank) return false;
  for (size_t d = 0; d < rank; d++) {
    int64_t n = sizes[rank - 1 - d];
    if (n != 1 && n != to[to_rank - 1 - d]) return false;
  }
  return true;
}

ec_status ec_call_broadcast(ec_call *c, size_t i, const ec_tensor *t, size_t *rank,
                            int64_t sizes[EC_MAX_RANK]) {
  char mine[EC_SHAPE_TEXT], theirs[EC_SHAPE_TEXT];
  size_t n = t->rank > *rank ? t->rank : *rank;
  int64_t merged[EC_MAX_RANK];
  for (size_t d = 0; d < n; d++) { /* from the right */
    int64_t a = d < *rank ? sizes[*rank - 1 - d] : 1;
    int64_t b = d < t->rank ? t->sizes[t->rank - 1 - d] : 1;
    if (a != b && a != 1 && b != 1)
      return ec_call_fail(c, i, "shape %s does not broadcast with %s",
                          ec_shape_text(t->sizes, t->rank, mine, sizeof mine),
                          ec_shape_text(sizes, *rank, theirs, sizeof theirs));
    merged[n - 1 - d] = a == 1 ? b : a;
  }
  memcpy(sizes, merged, n * sizeof *sizes);
  *rank = n;
  return EC_OK;
}
