/* Elements added at indices. */
#include "operators.h"

/* The tensors of a sum; indices and updates broadcast to `sizes`. */
typedef struct scatter {
  const ec_backend_tensor *x, *indices, *updates, *out;
  size_t axis, rank;
  int64_t sizes[EMO_MAX_RANK], results[EMO_MAX_RANK]; /* the same, but in the axis */
} scatter;

/* Finds the shapes: all broadcast, but x in the axis. */
static uint32_t read_sizes(const emo_call *c, scatter *s) {
  const ec_backend_tensor *u = s->updates;
  const int64_t *sizes = u->sizes;
  int64_t pair[EMO_MAX_RANK], rest[EMO_MAX_RANK];
  size_t rank = u->rank;
  for (; rank > s->rank && *sizes == 1; rank--) sizes++;
  if (s->indices->rank != s->rank || rank > s->rank || emo_is_float(s->indices->dtype))
    return EC_ARG_FAIL(c, "'indices' has %u dimensions of %s, 'updates' has %u; 'x' has %zu",
                       (unsigned)s->indices->rank, ec_backend_dtype_name(s->indices->dtype),
                       (unsigned)u->rank, s->rank);
  EC_BACKEND_TRY(emo_broadcast(c, s->indices->sizes, s->rank, sizes, rank, pair, &rank));
  const int64_t count = pair[s->axis];
  memcpy(rest, s->x->sizes, s->rank * sizeof *rest);
  rest[s->axis] = pair[s->axis] = 1;
  EC_BACKEND_TRY(emo_broadcast(c, rest, s->rank, pair, s->rank, s->sizes, &rank));
  memcpy(s->results, s->sizes, s->rank * sizeof *rest);
  s->sizes[s->axis] = count;
  s->results[s->axis] = s->x->sizes[s->axis];
  return EC_BACKEND_OK;
}

/* Returns the place in the result of item `at`, whose index is `index`. */
static int64_t find_place(const scatter *s, int64_t at, int64_t index) {
  int64_t place = 0, step = 1;
  for (size_t d = s->rank; d-- > 0; at /= s->sizes[d], step *= s->results[d])
    place += (d == s->axis ? index : at % s->sizes[d]) * step;
  return place;
}

static void add(const ec_backend_tensor *to, int64_t at, const ec_backend_tensor *from,
                int64_t source) {
  if (emo_is_float(to->dtype)) emo_store_at(to, at, emo_load(to, at) + emo_load(from, source));
  else
    emo_store_int(to, at,
                  (int64_t)((uint64_t)emo_load_int(to, at) + (uint64_t)emo_load_int(from, source)));
}

/* Copies x, broadcast, to the result. */
static void copy_all(const scatter *s) {
  const size_t width = ec_backend_dtype_size(s->x->dtype);
  const int64_t count = emo_product(s->results, 0, s->rank);
  for (int64_t i = 0; i < count; i++) {
    const int64_t from = emo_place(s->x->sizes, s->rank, s->results, s->rank, i);
    memcpy((uint8_t *)s->out->data + (size_t)i * width,
           (const uint8_t *)s->x->data + (size_t)from * width, width);
  }
}

uint32_t emo_scatter_add(const emo_call *c) {
  scatter s;
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &s.x));
  EC_BACKEND_TRY(emo_tensor(c, 1, "indices", &s.indices));
  EC_BACKEND_TRY(emo_tensor(c, 2, "updates", &s.updates));
  EC_BACKEND_TRY(emo_axis(c, c->args[3].as.i, s.x->rank, &s.axis));
  s.rank = s.x->rank;
  if (s.updates->dtype != s.x->dtype)
    return EC_ARG_FAIL(c, "'updates' is %s, 'x' is %s", ec_backend_dtype_name(s.updates->dtype),
                       ec_backend_dtype_name(s.x->dtype));
  EC_BACKEND_TRY(read_sizes(c, &s));
  EC_BACKEND_TRY(emo_output(c, 4, s.rank, s.results, s.x, &s.out));
  copy_all(&s);
  const int64_t count = emo_product(s.sizes, 0, s.rank), limit = s.results[s.axis];
  for (int64_t i = 0; i < count; i++) {
    const ec_backend_tensor *u = s.updates;
    const int64_t at = emo_place(s.indices->sizes, s.rank, s.sizes, s.rank, i);
    int64_t index;
    EC_BACKEND_TRY(emo_index(c, s.indices, at, limit, &index));
    add(s.out, find_place(&s, i, index), u, emo_place(u->sizes, u->rank, s.sizes, s.rank, i));
  }
  return EC_BACKEND_OK;
}
