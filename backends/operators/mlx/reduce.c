/* Reductions over several axes, running sums, and pointwise operators that the runtime lacks. */
#include <math.h>
#include <stdlib.h>

#include "operators.h"

/* ---- pointwise ------------------------------------------------------------------------------- */

uint32_t emo_logaddexp(const emo_call *c) {
  const ec_backend_tensor *a, *b, *out;
  int64_t sizes[EMO_MAX_RANK];
  size_t rank;
  EC_BACKEND_TRY(emo_floats(c, 0, "a", &a));
  EC_BACKEND_TRY(emo_floats(c, 1, "b", &b));
  EC_BACKEND_TRY(emo_broadcast(c, a->sizes, a->rank, b->sizes, b->rank, sizes, &rank));
  EC_BACKEND_TRY(emo_output(c, 2, rank, sizes, NULL, &out));
  const int64_t count = emo_product(sizes, 0, rank);
  for (int64_t i = 0; i < count; i++) {
    const double x = emo_load(a, emo_place(a->sizes, a->rank, sizes, rank, i));
    const double y = emo_load(b, emo_place(b->sizes, b->rank, sizes, rank, i));
    const double most = x > y ? x : y;
    emo_store_at(out, i, x == y ? x + log(2.0) : most + log1p(exp(-fabs(x - y))));
  }
  return EC_BACKEND_OK;
}

uint32_t emo_divide_unsigned(const emo_call *c) {
  const ec_backend_tensor *a, *b, *out;
  int64_t sizes[EMO_MAX_RANK];
  size_t rank;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "a", EC_ARG_SET(EC_DTYPE_INT64), -1, &a));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "b", EC_ARG_SET(EC_DTYPE_INT64), -1, &b));
  EC_BACKEND_TRY(emo_broadcast(c, a->sizes, a->rank, b->sizes, b->rank, sizes, &rank));
  EC_BACKEND_TRY(emo_output(c, 3, rank, sizes, NULL, &out));
  const int64_t count = emo_product(sizes, 0, rank);
  for (int64_t i = 0; i < count; i++) {
    const uint64_t x = (uint64_t)emo_load_int(a, emo_place(a->sizes, a->rank, sizes, rank, i));
    const uint64_t y = (uint64_t)emo_load_int(b, emo_place(b->sizes, b->rank, sizes, rank, i));
    if (!y) return EC_ARG_FAIL(c, "integer division by zero");
    emo_store_int(out, i, (int64_t)(c->args[2].as.b ? x % y : x / y));
  }
  return EC_BACKEND_OK;
}

uint32_t emo_random_bits(const emo_call *c) {
  return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                         "random bits of MLX are not reproducible here; take a temperature of 0, "
                         "or random numbers as an input of the program");
}

/* ---- running sums ---------------------------------------------------------------------------- */

uint32_t emo_cumsum(const emo_call *c) {
  const ec_backend_tensor *x, *out;
  const bool reverse = c->args[2].as.b, inclusive = c->args[3].as.b;
  size_t axis;
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &x));
  EC_BACKEND_TRY(emo_axis(c, c->args[1].as.i, x->rank, &axis));
  EC_BACKEND_TRY(emo_output(c, 4, x->rank, x->sizes, NULL, &out));
  const int64_t size = x->sizes[axis], inner = emo_product(x->sizes, axis + 1, x->rank);
  const int64_t lines = emo_product(x->sizes, 0, axis) * inner;
  const bool is_float = emo_is_float(out->dtype);
  for (int64_t line = 0; line < lines; line++) {
    const int64_t first = line / inner * size * inner + line % inner;
    double real = 0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < size; i++) {
      const int64_t at = first + (reverse ? size - 1 - i : i) * inner;
      const double before = real;
      const uint64_t whole_before = whole;
      if (is_float) real += emo_load(x, at);
      else whole += (uint64_t)emo_load_int(x, at);
      if (is_float) emo_store_at(out, at, inclusive ? real : before);
      else emo_store_int(out, at, (int64_t)(inclusive ? whole : whole_before));
    }
  }
  return EC_BACKEND_OK;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef double reduce_fn(double *items, int64_t count, int64_t ddof);

static double reduce_prod(double *items, int64_t count, int64_t ddof) {
  double product = 1;
  (void)ddof;
  for (int64_t i = 0; i < count; i++) product *= items[i];
  return product;
}

static double reduce_all(double *items, int64_t count, int64_t ddof) {
  (void)ddof;
  for (int64_t i = 0; i < count; i++)
    if (items[i] == 0) return 0;
  return 1;
}

static double reduce_any(double *items, int64_t count, int64_t ddof) {
  (void)ddof;
  for (int64_t i = 0; i < count; i++)
    if (items[i] != 0) return 1;
  return 0;
}

static double reduce_var(double *items, int64_t count, int64_t ddof) {
  double mean = 0, sum = 0;
  for (int64_t i = 0; i < count; i++) mean += items[i];
  mean /= (double)count;
  for (int64_t i = 0; i < count; i++) sum += (items[i] - mean) * (items[i] - mean);
  return sum / (double)(count > ddof ? count - ddof : 0);
}

static double reduce_std(double *items, int64_t count, int64_t ddof) {
  return sqrt(reduce_var(items, count, ddof));
}

static double reduce_logsumexp(double *items, int64_t count, int64_t ddof) {
  double most = -INFINITY, sum = 0;
  (void)ddof;
  for (int64_t i = 0; i < count; i++)
    if (!(items[i] <= most)) most = items[i];
  if (isinf(most)) return most;
  for (int64_t i = 0; i < count; i++) sum += exp(items[i] - most);
  return most + log(sum);
}

static int compare(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

static double reduce_median(double *items, int64_t count, int64_t ddof) {
  (void)ddof;
  for (int64_t i = 0; i < count; i++)
    if (isnan(items[i])) return items[i];
  qsort(items, (size_t)count, sizeof *items, compare);
  return count ? (items[(count - 1) / 2] + items[count / 2]) / 2 : NAN;
}

static reduce_fn *find_kind(const char *kind) {
  static const struct {
    const char *name;
    reduce_fn *function;
  } rows[] = {{"all", reduce_all},       {"any", reduce_any},   {"logsumexp", reduce_logsumexp},
              {"median", reduce_median}, {"prod", reduce_prod}, {"std", reduce_std},
              {"var", reduce_var}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(kind, rows[i].name) == 0) return rows[i].function;
  return NULL;
}

/* Dimensions of a reduction: kept ones in `kept`, the others in `reduced`, with their steps. */
typedef struct reduction {
  const ec_backend_tensor *x;
  bool is_reduced[EMO_MAX_RANK];
  int64_t sizes[EMO_MAX_RANK]; /* of the result */
  size_t rank;
  int64_t count; /* items of one result */
} reduction;

static uint32_t read_reduction(const emo_call *c, reduction *r) {
  const size_t count = c->args[1].as.list.count;
  for (size_t i = 0; i < count; i++) {
    size_t axis;
    EC_BACKEND_TRY(emo_axis(c, c->args[1].as.list.items[i].as.i, r->x->rank, &axis));
    if (r->is_reduced[axis]) return EC_ARG_FAIL(c, "axis %zu is named twice", axis);
    r->is_reduced[axis] = true;
  }
  r->count = 1;
  for (size_t d = 0; d < r->x->rank; d++) {
    r->is_reduced[d] |= !count;
    if (r->is_reduced[d]) r->count *= r->x->sizes[d];
    if (!r->is_reduced[d] || c->args[2].as.b)
      r->sizes[r->rank++] = r->is_reduced[d] ? 1 : r->x->sizes[d];
  }
  return EC_BACKEND_OK;
}

/* Returns the place of item `i` of result `at`. */
static int64_t find_item(const reduction *r, int64_t at, int64_t i) {
  int64_t place = 0, step = 1;
  for (size_t d = r->x->rank; d-- > 0; step *= r->x->sizes[d]) {
    int64_t *rest = r->is_reduced[d] ? &i : &at;
    place += *rest % r->x->sizes[d] * step;
    *rest /= r->x->sizes[d];
  }
  return place;
}

/* Returns the product of the items of result `at`, modulo 2 ** 64: doubles are not exact. */
static int64_t multiply_ints(const reduction *r, int64_t at) {
  uint64_t product = 1;
  for (int64_t i = 0; i < r->count; i++)
    product *= (uint64_t)emo_load_int(r->x, find_item(r, at, i));
  return (int64_t)product;
}

uint32_t emo_reduce(const emo_call *c) {
  reduction r = {.rank = 0};
  const ec_backend_tensor *out;
  double *items;
  reduce_fn *function = find_kind(c->args[3].as.string.data);
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &r.x));
  EC_BACKEND_TRY(read_reduction(c, &r));
  if (!function) return EC_ARG_FAIL(c, "kind '%.40s'", c->args[3].as.string.data);
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, r.count, sizeof *items, &items));
  EC_BACKEND_TRY(emo_output(c, 5, r.rank, r.sizes, NULL, &out));
  const int64_t results = emo_product(r.sizes, 0, r.rank);
  const bool is_whole = function == reduce_prod && !emo_is_float(out->dtype);
  for (int64_t at = 0; at < results; at++) {
    if (is_whole) {
      emo_store_int(out, at, multiply_ints(&r, at));
      continue;
    }
    for (int64_t i = 0; i < r.count; i++) items[i] = emo_load(r.x, find_item(&r, at, i));
    emo_store_at(out, at, function(items, r.count, c->args[4].as.i));
  }
  return EC_BACKEND_OK;
}
