/* Runs a plan: orders and merges dimensions, then walks blocks of results. */
#include <string.h>

#include "core/checked.h"
#include "kernels/copy.h"
#include "kernels/reduce/reduce.h"

enum {
  NEIGHBOURS = 64,  /* adjacent results that one thread computes */
  CHUNK = 1 << 15,  /* minimum elements of a chunk of a single result */
  CHUNKS = 128      /* maximum chunks of a single result */
};

/* Computes strides of one output by input dimension; 0 for reduced ones. */
static void spread_strides(const ec_reduce_plan *p, const ec_tensor *out, int64_t *strides) {
  size_t o = 0;
  for (size_t d = 0; d < p->in.rank; d++) {
    bool reduced = p->mask >> d & 1u;
    strides[d] = reduced || !out ? 0 : out->strides[o];
    if (!reduced || p->keepdim) o++;
  }
}

/* Selects reduced dimensions larger than 1, in memory order unless the plan is ordered. */
static size_t pick_dims(const ec_reduce_plan *p, size_t *dims) {
  size_t n = 0;
  for (size_t d = 0; d < p->in.rank; d++) {
    if (!(p->mask >> d & 1u) || p->in.sizes[d] == 1) continue;
    size_t at = n++;
    for (; !p->ordered && at > 0 && p->in.strides[dims[at - 1]] < p->in.strides[d]; at--)
      dims[at] = dims[at - 1];
    dims[at] = d;
  }
  return n;
}

static void merge_reduced(ec_reduce_plan *p) {
  size_t dims[EC_MAX_RANK], n = pick_dims(p, dims);
  p->reduced = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t size = p->in.sizes[dims[i]], stride = p->in.strides[dims[i]];
    size_t last = p->reduced;
    if (last && p->red_in[last - 1] == stride * size) {
      p->red_size[last - 1] *= size;
      p->red_in[last - 1] = stride;
    } else {
      p->red_size[last] = size;
      p->red_in[last] = stride;
      p->reduced++;
    }
  }
}

/* Reduces every element into the block's accumulators. */
static void fold_block(const ec_reduce_plan *p, ec_reduce_step step, ec_reduce_acc acc,
                       ec_reduce_block block) {
  size_t outer = p->reduced ? p->reduced - 1 : 0;
  size_t item = ec_dtype_size(ec_tensor_dtype(&p->in));
  int64_t index[EC_MAX_RANK] = {0};
  const char *x = block.x;
  int64_t at = 0;
  for (;;) {
    block.x = x + at * (int64_t)item;
    step(acc, &block);
    block.base += block.n;
    size_t d = outer;
    for (; d > 0; d--) { /* the odometer of the outer reduced dimensions */
      at += p->red_in[d - 1];
      if (++index[d - 1] < p->red_size[d - 1]) break;
      at -= p->red_in[d - 1] * p->red_size[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/* A run: an iterator walks the kept dimensions. Operand 0 is the input, 1 and 2 are outputs. */
typedef struct run {
  const ec_reduce_plan *plan;
  const ec_reduce_loops *loops;
  ec_reduce_block block;
  ec_reduce_dst dst;
  int64_t item[3]; /* bytes of an element of each operand */
} run;

/* Computes all results of one inner loop of the walk. */
static void run_line(const run *r, const ec_iter *it, ec_reduce_acc acc) {
  const ec_reduce_plan *p = r->plan;
  const ec_reduce_loops *loops = r->loops;
  ec_reduce_block block = r->block;
  ec_reduce_dst dst = r->dst;
  block.ks = it->rank ? it->step[0] / r->item[0] : 0;
  for (size_t o = 0; o < 2; o++) dst.stride[o] = it->step[1 + o] / r->item[1 + o];
  for (int64_t i = 0; i < it->count; i += block.k) {
    block.k = ec_min_i64(it->count - i, EC_REDUCE_BLOCK);
    block.x = it->at[0] + i * it->step[0];
    for (size_t o = 0; o < 2; o++)
      if (dst.out[o]) dst.out[o] = it->at[1 + o] + i * it->step[1 + o];
    loops->init(acc, block.k);
    if (p->count) fold_block(p, loops->step, acc, block);
    if (loops->turn) loops->turn(acc, block.k, (double)p->count);
    if (loops->turn && p->count) fold_block(p, loops->second_pass, acc, block);
    loops->finish(acc, block.k, &dst);
  }
}

static void run_piece(void *user, ec_iter *it, size_t piece) {
  _Alignas(64) char a[EC_REDUCE_BLOCK * EC_REDUCE_ACC_BYTES], b[sizeof a];
  (void)piece;
  do run_line(user, it, (ec_reduce_acc){a, b});
  while (ec_iter_next(it));
}

/* One result in chunks. */
typedef struct chunks {
  const run *run;
  bool second_pass;
  int64_t count;
  _Alignas(64) char a[CHUNKS][EC_REDUCE_ACC_BYTES], b[CHUNKS][EC_REDUCE_ACC_BYTES];
} chunks;

static ec_reduce_acc acc_of(chunks *w, size_t i) { return (ec_reduce_acc){w->a[i], w->b[i]}; }

static void fold_chunks(void *user, size_t begin, size_t end) {
  chunks *w = user;
  const ec_reduce_loops *loops = w->run->loops;
  for (size_t i = begin; i < end; i++) {
    ec_reduce_block block = w->run->block;
    const int64_t all = block.n;
    block.base = ec_share(all, (int64_t)i, w->count);
    block.n = ec_share(all, (int64_t)i + 1, w->count) - block.base;
    block.x += block.base * block.ns * w->run->item[0];
    if (!w->second_pass) loops->init(acc_of(w, i), 1);
    (w->second_pass ? loops->second_pass : loops->step)(acc_of(w, i), &block);
  }
}

static void run_chunks(const ec_call *c, const run *r, int64_t count) {
  const ec_reduce_loops *loops = r->loops;
  chunks w = {.run = r, .count = count};
  const ec_reduce_acc first = acc_of(&w, 0);
  ec_parallel_for(c, (size_t)count, 1, fold_chunks, &w);
  for (int64_t i = 1; i < count; i++) loops->merge(first, acc_of(&w, (size_t)i));
  if (loops->turn) {
    loops->turn(first, 1, (double)r->plan->count);
    for (int64_t i = 1; i < count; i++) memcpy(w.a[i], w.a[0], sizeof w.a[0]);
    w.second_pass = true;
    ec_parallel_for(c, (size_t)count, 1, fold_chunks, &w);
    for (int64_t i = 1; i < count; i++) loops->merge_second_pass(first, acc_of(&w, (size_t)i));
  }
  loops->finish(first, 1, &r->dst);
}

/* Returns the number of chunks: 1 for several results, or for a short one. */
static int64_t chunks_of(const run *r, const ec_iter *it) {
  const bool one = it->rank == 0 && r->plan->reduced == 1;
  if (!one || !r->loops->merge || r->block.plain) return 1;
  return ec_max_i64(1, ec_min_i64(r->block.n / CHUNK, CHUNKS));
}

/* Adds the input and both outputs. An output that is not requested is replaced by unused memory. */
static void add_operands(const ec_reduce_plan *p, run *r, ec_tensor *const out[2], ec_iter *it) {
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK], none[EC_MAX_RANK] = {0};
  const size_t rank = p->in.rank;
  for (size_t d = 0; d < rank; d++) sizes[d] = p->mask >> d & 1u ? 1 : p->in.sizes[d];
  ec_iter_init(it, rank, sizes);
  r->item[0] = (int64_t)ec_dtype_size(ec_tensor_dtype(&p->in));
  /* without elements nothing is read, and strides are meaningless */
  ec_iter_add(it, p->in.data, (size_t)r->item[0], rank, sizes, p->count ? p->in.strides : none);
  for (size_t o = 0; o < 2; o++) {
    spread_strides(p, out[o], strides);
    r->item[1 + o] = out[o] ? (int64_t)ec_dtype_size(ec_tensor_dtype(out[o])) : 1;
    const void *data = out[o] ? out[o]->data : p->in.data;
    ec_iter_add(it, data, (size_t)r->item[1 + o], rank, sizes, strides);
    if (out[o]) r->dst.out[o] = out[o]->data;
  }
}

void ec_reduce_run(ec_reduce_plan *p, const ec_call *c, const ec_tensor *in,
                   ec_tensor *const out[2], const ec_reduce_loops *loops, double divisor) {
  run r = {.plan = p, .loops = loops, .block = {.k = 1, .n = 1, .plain = c->reference},
           .dst = {.divisor = divisor}};
  ec_iter it;
  p->in.data = in->data; /* an unbound output that is also the input may have moved */
  merge_reduced(p);
  size_t n = p->reduced;
  if (n) r.block.n = p->red_size[n - 1], r.block.ns = p->red_in[n - 1];
  add_operands(p, &r, out, &it);
  if (!ec_iter_start(&it)) return;
  int64_t count = chunks_of(&r, &it);
  if (count > 1) {
    r.block.x = p->in.data;
    run_chunks(c, &r, count);
    return;
  }
  /* adjacent results share cache lines of the input, rows do not */
  it.unit = it.step[0] == r.item[0] ? NEIGHBOURS : 1;
  ec_iter_run(c, &it, ec_iter_pieces(c, &it, (size_t)p->count), run_piece, &r);
}

ec_status ec_reduce_cast(ec_call *c, ec_reduce_plan *p, ec_dtype dtype, const ec_tensor **in) {
  ec_tensor *copy;
  if (ec_tensor_dtype(&p->in) == dtype) return EC_OK;
  EC_TRY(ec_call_scratch(c, 1, sizeof *copy, &copy));
  ec_tensor from = p->in; /* an output that is also the input may already be resized */
  from.data = (*in)->data;
  EC_TRY(ec_call_like(c, &from, dtype, copy));
  ec_copy_cast(c, copy, &from);
  p->in = *copy;
  *in = copy;
  return EC_OK;
}
