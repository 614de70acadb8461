/* The pointwise engine: dtypes, shapes, block conversion. */
#include "kernels/pointwise/elementwise.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "kernels/pointwise/joined.h"
#include "kernels/record.h"

enum { BLOCK = 256, OPERANDS = EC_ELEMENTWISE_INPUTS + 1, ITEM_MAX = 16 };

/* The conversions of one operand between memory and the loop; all NULL: none. */
typedef struct route {
  ec_cast_fn first, second; /* `second` follows an intermediate rounding */
  int64_t conversion, compute; /* element sizes after each */
} route;

void ec_number_init(ec_number *number, ec_dtype dtype, ec_scalar s) {
  *number = (ec_number){0};
  number->tensor.dtype = (uint8_t)dtype;
  number->tensor.numel = number->tensor.numel_bound = 1;
  ec_cast_scalar(dtype, s, number->element);
  number->tensor.data = number->element;
  number->tensor.capacity = sizeof number->element;
}

ec_status ec_elementwise_find(ec_call *c, ec_elementwise_loops loops, ec_dtype logical,
                              ec_elementwise_loop *loop) {
  *loop = loops[ec_compute_dtype(logical)];
  if (*loop) return EC_OK;
  ec_dtype_set set = 0;
  for (unsigned d = 0; d < EC_DTYPE_COUNT; d++)
    if (ec_dtype_size((ec_dtype)d) && loops[ec_compute_dtype((ec_dtype)d)]) set |= EC_BIT(d);
  char names[256];
  return ec_fail(c->err, EC_INVALID_ARGUMENT, "computes in dtype %s, expected one of %s",
                 ec_dtype_name(logical), ec_dtype_set_names(set, names, sizeof names));
}

static int64_t size_of(ec_dtype d) { return (int64_t)ec_dtype_size(d); }

static route route_between(ec_dtype from, ec_dtype via, ec_dtype to) {
  route r = {NULL, NULL, size_of(via), size_of(to)};
  if (from != via && via != to) {
    r.first = ec_cast(via, from);
    r.second = ec_cast(to, via);
  } else if (from != to) {
    r.first = ec_cast(to, from);
    r.conversion = r.compute;
  }
  return r;
}

/* Room for one block of every operand; 8-byte units ensure alignment. */
typedef struct blocks {
  uint64_t data[OPERANDS][BLOCK * ITEM_MAX / 8];
  uint64_t conversion[BLOCK * ITEM_MAX / 8];
} blocks;

static void convert_block(const route *r, blocks *b, int64_t n, char *dst, int64_t dst_step,
                          const char *src, int64_t src_step) {
  if (!r->second) {
    r->first(n, dst, dst_step, src, src_step);
    return;
  }
  r->first(n, (char *)b->conversion, r->conversion, src, src_step);
  r->second(n, dst, dst_step, (char *)b->conversion, r->conversion);
}

static void run_block(const ec_iter *it, const route *routes, ec_elementwise *p, blocks *b,
                      int64_t from, int64_t n) {
  char *at[OPERANDS];
  int64_t step[OPERANDS];
  for (size_t k = 0; k < it->operands; k++) {
    at[k] = it->at[k] + from * it->step[k];
    step[k] = it->step[k];
    if (!routes[k].first) continue;
    char *memory = at[k];
    at[k] = (char *)b->data[k];
    step[k] = k && it->step[k] == 0 ? 0 : k ? routes[k].compute : size_of(p->compute);
    if (k)
      convert_block(&routes[k], b, step[k] ? n : 1, at[k], routes[k].compute, memory, it->step[k]);
  }
  p->loop(n, at, step, &p->params);
  if (routes[0].first)
    convert_block(&routes[0], b, n, it->at[0] + from * it->step[0], it->step[0], at[0], step[0]);
}

typedef struct walk {
  ec_elementwise *point;
  const route *routes;
  const ec_tensor *out;
  bool direct;
  atomic_bool zero_division;
} walk;

static void run_blocks(ec_iter *it, const route *routes, ec_elementwise *p) {
  blocks b;
  do {
    for (int64_t i = 0; i < it->count; i += BLOCK)
      run_block(it, routes, p, &b, i, it->count - i < BLOCK ? it->count - i : BLOCK);
  } while (ec_iter_next(it));
}

/* Runs a piece. Loops set a flag in their parameters, so each piece has its own copy. */
static void run_piece(void *user, ec_iter *it, size_t piece) {
  walk *w = user;
  ec_elementwise p = *w->point;
  (void)piece;
  if (w->direct) {
    do p.loop(it->count, it->at, it->step, &p.params);
    while (ec_iter_next(it));
  } else {
    run_blocks(it, w->routes, &p);
  }
  if (p.params.zero_division) w->zero_division = true;
}

/* ---- records ----------------------------------------------------------------------------- */

enum { MAX_INNER_LOOPS = 16 }; /* of a call */

typedef struct point_step {
  ec_recorded_loop step;
  ec_elementwise_loop loop;
  int64_t n;
  char *at[OPERANDS];
  int64_t step_bytes[OPERANDS];
  uint64_t numbers[OPERANDS][2]; /* operands that are no tensors of the call */
  ec_params params;
} point_step;

static bool run_point(const ec_recorded_loop *step) {
  point_step *s = (point_step *)(uintptr_t)step;
  s->loop(s->n, s->at, s->step_bytes, &s->params);
  const bool failed = s->params.zero_division;
  s->params.zero_division = false;
  return !failed;
}

static bool is_argument(const ec_call *c, const ec_tensor *t) {
  for (size_t i = 0; i < c->op->nargs; i++)
    if (c->args[i]->kind == EC_KIND_TENSOR && c->args[i]->as.tensor == t) return true;
  return false;
}

/* True for the tensor of an ec_number. */
static bool is_number(const ec_tensor *t) {
  return (const char *)t->data == (const char *)t + offsetof(ec_number, element);
}

/* Records one inner loop. Numbers lie on the stack of a kernel, so that the step has a copy. */
static void record_loop(ec_record *record, const ec_iter *it, const ec_elementwise *p) {
  point_step *s = ec_record_add(record, run_point, sizeof *s, it->count);
  if (!s) return;
  s->loop = p->loop;
  s->n = it->count;
  s->params = p->params;
  for (size_t k = 0; k < it->operands; k++) {
    s->at[k] = it->at[k];
    s->step_bytes[k] = it->step[k];
    if (k == 0 || is_argument(p->call, p->in[k - 1].tensor)) continue;
    memcpy(s->numbers[k], it->at[k], ec_dtype_size(p->in[k - 1].compute));
    s->at[k] = (char *)s->numbers[k];
  }
}

/* True if the loop reads the call's tensors in their memory, and numbers: is_mine[k]. */
static bool find_operands(const walk *w, const ec_iter *it, bool *is_mine) {
  const ec_elementwise *p = w->point;
  is_mine[0] = true;
  for (size_t k = 0; k < p->inputs; k++) {
    const bool mine = is_mine[k + 1] = is_argument(p->call, p->in[k].tensor);
    if (!mine && !is_number(p->in[k].tensor)) return false;
    if (mine && it->at[k + 1] != p->in[k].tensor->data) return false; /* converted before */
  }
  return w->direct;
}

static bool is_recordable(const walk *w, const ec_iter *it) {
  bool is_mine[OPERANDS];
  int64_t loops = 1;
  for (size_t d = 1; d < it->rank && loops <= MAX_INNER_LOOPS; d++) loops *= it->sizes[d];
  return loops <= MAX_INNER_LOOPS && find_operands(w, it, is_mine);
}

/* Records the loops of a started walk in one piece. */
static void record_walk(const walk *w, const ec_iter *started, size_t pieces) {
  ec_record *record = w->point->record;
  ec_iter it = *started;
  if (pieces > 1 || !is_recordable(w, &it)) {
    ec_record_refuse(record);
    return;
  }
  do record_loop(record, &it, w->point);
  while (ec_iter_next(&it));
}

/* Leaves the loop to the calls that this one is joined with. They see whether they have it. Numbers
 * lie on the stack of the kernel. */
static void join_walk(const walk *w, const ec_iter *it) {
  const ec_elementwise *p = w->point;
  bool is_mine[OPERANDS];
  ec_joined_loop *l = ec_joined_next(p->joined);
  if (!l || !find_operands(w, it, is_mine)) return;
  l->loop = p->loop;
  l->params = p->params;
  l->it = *it;
  bool is_float = p->compute == EC_FLOAT32;
  for (size_t k = 0; k < p->inputs; k++) is_float = is_float && p->in[k].compute == EC_FLOAT32;
  l->kind = is_float ? p->joined->kind : EC_LOOP_LOOP;
  for (size_t k = 0; k < it->operands; k++) {
    l->item[k] = ec_dtype_size(k ? p->in[k - 1].compute : p->compute);
    if (is_mine[k]) continue;
    memcpy(l->numbers[k], it->at[k], l->item[k]);
    l->it.at[k] = (char *)l->numbers[k];
  }
  (void)ec_joined_take(p->joined, w->out);
}

static void run_walk(ec_iter *it, walk *w) {
  const ec_call *c = w->point->call;
  if (!ec_iter_start(it)) return;
  if (!EC_IS_SMALL && w->point->joined) {
    join_walk(w, it);
    return;
  }
  size_t pieces = c ? ec_iter_pieces(c, it, EC_ELEMENTWISE_COST) : 1;
  if (w->point->record) record_walk(w, it, pieces);
  if (pieces > 1) ec_iter_run(c, it, pieces, run_piece, w);
  else run_piece(w, it, 0);
  if (w->zero_division) w->point->params.zero_division = true;
}

void ec_elementwise_apply(ec_tensor *out, ec_elementwise *p) {
  ec_iter it;
  route routes[OPERANDS] = {
      route_between(p->compute, p->logical == p->compute ? p->compute : p->logical,
                    ec_tensor_dtype(out))};
  bool direct = !routes[0].first;
  uint64_t single[OPERANDS][2];
  ec_iter_init(&it, out->rank, out->sizes);
  ec_iter_tensor(&it, out);
  for (size_t k = 1; k <= p->inputs; k++) {
    const ec_operand *in = &p->in[k - 1];
    const ec_tensor *t = in->tensor;
    route r = route_between(ec_tensor_dtype(t), in->logical, in->compute);
    if (r.first && t->numel == 1) { /* converted once instead of once per row */
      char conversion[ITEM_MAX];
      r.first(1, r.second ? conversion : (char *)single[k], 0, t->data, 0);
      if (r.second) r.second(1, (char *)single[k], 0, conversion, 0);
      r.first = NULL;
      ec_iter_add(&it, single[k], ec_dtype_size(in->compute), 0, NULL, NULL);
    } else {
      ec_iter_tensor(&it, t);
    }
    routes[k] = r;
    direct = direct && !r.first;
  }
  walk w = {.point = p, .routes = routes, .out = out, .direct = direct};
  run_walk(&it, &w);
}

ec_status ec_elementwise_run(ec_call *c, size_t o, ec_elementwise *p) {
  ec_tensor *out = ec_arg_tensor(c, o);
  size_t rank = 0;
  int64_t sizes[EC_MAX_RANK];
  EC_TRY(ec_call_check_cast(c, o, p->logical));
  for (size_t k = 0; k < p->inputs; k++)
    EC_TRY(ec_call_broadcast(c, k, p->in[k].tensor, &rank, sizes));
  EC_TRY(ec_call_resize(c, o, rank, sizes));
  p->call = c;
  p->record = ec_record_of(c);
  p->joined = c->joined;
  ec_elementwise_apply(out, p);
  if (p->params.zero_division)
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "integer division by zero");
  return EC_OK;
}
