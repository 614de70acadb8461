/* Products of matrices, plain or packed. */
#include "operators.h"
#include "packed.h"

enum { BLOCK = 256 /* elements of a row at a time */, STRIP = 16 /* rows at a time */ };

/* Products of matrices a [m, k] and b [k, n], or [n, k] if it is transposed. */
typedef struct product {
  const emo_call *c;
  const ec_backend_tensor *a, *b, *out, *bias;
  const emo_packed *packed; /* b, if not NULL */
  const int64_t *lhs, *rhs; /* numbers of matrices, by product */
  bool is_transposed;
  int64_t count, m, n, k;
  double alpha, beta;
} product;

/* Copies `count` elements of a row of b. */
static void load_row(const product *p, int64_t row, int64_t first, int64_t count, float *out) {
  const int64_t width = p->is_transposed ? p->k : p->n;
  if (p->packed) emo_decode(p->packed, row, first, count, out);
  else
    for (int64_t i = 0; i < count; i++) out[i] = (float)emo_load(p->b, row * width + first + i);
}

static void store(const product *p, int64_t at, double sum) {
  if (p->bias) {
    const int64_t place =
        emo_place(p->bias->sizes, p->bias->rank, p->out->sizes, p->out->rank, at);
    sum = p->alpha * sum + p->beta * emo_load(p->bias, place);
  }
  emo_store_at(p->out, at, sum);
}

/* Computes columns [first, first + count) of rows [top, top + rows) of a product. */
static void fill_block(const product *p, int64_t index, int64_t top, int64_t rows, int64_t first,
                       int64_t count) {
  double sums[STRIP][BLOCK] = {{0}};
  float row[BLOCK];
  const int64_t a = p->lhs[index] * p->m + top, b = p->rhs[index] * p->k;
  for (int64_t k = 0; k < p->k; k++) {
    load_row(p, b + k, first, count, row);
    for (int64_t i = 0; i < rows; i++) {
      const double x = emo_load(p->a, (a + i) * p->k + k);
      for (int64_t j = 0; j < count; j++) sums[i][j] += x * (double)row[j];
    }
  }
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < count; j++)
      store(p, (index * p->m + top + i) * p->n + first + j, sums[i][j]);
}

/* Computes rows [top, top + rows) of a column of a product: b's rows are its columns. */
static void fill_column(const product *p, int64_t index, int64_t top, int64_t rows,
                        int64_t column) {
  double sums[STRIP] = {0};
  float row[BLOCK];
  const int64_t a = p->lhs[index] * p->m + top, b = p->rhs[index] * p->n + column;
  for (int64_t first = 0; first < p->k; first += BLOCK) {
    const int64_t count = p->k - first < BLOCK ? p->k - first : BLOCK;
    load_row(p, b, first, count, row);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < count; j++)
        sums[i] += emo_load(p->a, (a + i) * p->k + first + j) * (double)row[j];
  }
  for (int64_t i = 0; i < rows; i++)
    store(p, (index * p->m + top + i) * p->n + column, sums[i]);
}

/* Items are columns, or blocks of them, of all products. */
static void fill(void *user, size_t begin, size_t end) {
  const product *p = user;
  const int64_t width = p->is_transposed ? 1 : BLOCK, blocks = (p->n + width - 1) / width;
  for (int64_t item = (int64_t)begin; item < (int64_t)end; item++) {
    const int64_t index = item / blocks, first = item % blocks * width;
    const int64_t count = p->n - first < width ? p->n - first : width;
    for (int64_t top = 0; top < p->m; top += STRIP) {
      const int64_t rows = p->m - top < STRIP ? p->m - top : STRIP;
      if (p->is_transposed) fill_column(p, index, top, rows, first);
      else fill_block(p, index, top, rows, first, count);
    }
  }
}

static void run(product *p) {
  const int64_t width = p->is_transposed ? 1 : BLOCK, blocks = (p->n + width - 1) / width;
  EC_ARG_PARALLEL(p->c, p->count * blocks, (double)(p->m * p->k * width), fill, p);
}

/* ---- which matrices -------------------------------------------------------------------------- */

/* Numbers of matrices: those of an index, or all of a side in order. */
typedef struct side {
  const ec_backend_tensor *index; /* NULL: all */
  const int64_t *sizes;
  size_t rank;
  int64_t limit;
} side;

static side side_of(const ec_backend_tensor *t, const ec_backend_tensor *index) {
  const size_t rank = t->rank > 2 ? t->rank - 2u : 0;
  side s = {index, t->sizes, rank, emo_product(t->sizes, 0, rank)};
  if (index) {
    s.sizes = index->sizes;
    s.rank = index->rank;
  }
  return s;
}

static uint32_t list_numbers(const emo_call *c, const side *s, const int64_t *batch, size_t rank,
                             int64_t count, const int64_t **out) {
  int64_t *numbers;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, count, sizeof *numbers, &numbers));
  for (int64_t i = 0; i < count; i++) {
    numbers[i] = emo_place(s->sizes, s->rank, batch, rank, i);
    if (s->index) numbers[i] = emo_load_int(s->index, numbers[i]);
    if (numbers[i] < 0 || numbers[i] >= s->limit)
      return EC_ARG_FAIL(c, "index %lld of a matrix, there are %lld", (long long)numbers[i],
                         (long long)s->limit);
  }
  *out = numbers;
  return EC_BACKEND_OK;
}

/* Sets the result's shape, batch + [m, n] without the dimensions that vectors lack, and runs. */
static uint32_t multiply(product *p, size_t out, const side *lhs, const side *rhs, bool has_m,
                         bool has_n) {
  int64_t sizes[EMO_MAX_RANK + 2];
  size_t rank;
  EC_BACKEND_TRY(emo_broadcast(p->c, lhs->sizes, lhs->rank, rhs->sizes, rhs->rank, sizes, &rank));
  p->count = emo_product(sizes, 0, rank);
  EC_BACKEND_TRY(list_numbers(p->c, lhs, sizes, rank, p->count, &p->lhs));
  EC_BACKEND_TRY(list_numbers(p->c, rhs, sizes, rank, p->count, &p->rhs));
  if (has_m) sizes[rank++] = p->m;
  if (has_n) sizes[rank++] = p->n;
  EC_BACKEND_TRY(emo_output(p->c, out, rank, sizes, NULL, &p->out));
  if (p->bias) {
    int64_t all[EMO_MAX_RANK];
    size_t all_rank;
    EC_BACKEND_TRY(emo_broadcast(p->c, sizes, rank, p->bias->sizes, p->bias->rank, all, &all_rank));
    if (all_rank != rank || memcmp(all, sizes, rank * sizeof *all) != 0)
      return EC_ARG_FAIL(p->c, "'bias' has another shape than the product");
  }
  run(p);
  return EC_BACKEND_OK;
}

/* Fails unless a's columns are b's rows. */
static uint32_t check_inner(const emo_call *c, int64_t a, int64_t b) {
  return a == b ? (uint32_t)EC_BACKEND_OK
                : EC_ARG_FAIL(c, "%lld columns times %lld rows", (long long)a, (long long)b);
}

static uint32_t multiply_plain(product *p, const ec_backend_tensor *lhs,
                               const ec_backend_tensor *rhs, size_t out) {
  if (p->a->rank < 1 || p->b->rank < 1) return EC_ARG_FAIL(p->c, "an operand has no dimensions");
  const bool has_m = p->a->rank > 1, has_n = p->b->rank > 1;
  const side left = side_of(p->a, lhs), right = side_of(p->b, rhs);
  p->m = has_m ? p->a->sizes[p->a->rank - 2] : 1;
  p->k = p->a->sizes[p->a->rank - 1];
  p->n = has_n ? p->b->sizes[p->b->rank - 1] : 1;
  EC_BACKEND_TRY(check_inner(p->c, p->k, p->b->sizes[p->b->rank - 1u - has_n]));
  return multiply(p, out, &left, &right, has_m, has_n);
}

/* ---- operators ------------------------------------------------------------------------------- */

uint32_t emo_addmm(const emo_call *c) {
  product p = {.c = c, .alpha = c->args[3].as.d, .beta = c->args[4].as.d};
  EC_BACKEND_TRY(emo_floats(c, 0, "mat1", &p.a));
  EC_BACKEND_TRY(emo_floats(c, 1, "mat2", &p.b));
  EC_BACKEND_TRY(emo_optional(c, 2, "bias", &p.bias));
  return multiply_plain(&p, NULL, NULL, 5);
}

uint32_t emo_gather_mm(const emo_call *c) {
  product p = {.c = c};
  const ec_backend_tensor *lhs, *rhs;
  EC_BACKEND_TRY(emo_floats(c, 0, "a", &p.a));
  EC_BACKEND_TRY(emo_floats(c, 1, "b", &p.b));
  EC_BACKEND_TRY(emo_optional(c, 2, "lhs", &lhs));
  EC_BACKEND_TRY(emo_optional(c, 3, "rhs", &rhs));
  return multiply_plain(&p, lhs, rhs, 4);
}

uint32_t emo_quantized_matmul(const emo_call *c) {
  static const emo_packed_args places = {1, 2, 3, 6, 7, 8};
  product p = {.c = c, .is_transposed = c->args[9].as.b};
  const ec_backend_tensor *lhs, *rhs;
  emo_packed packed;
  EC_BACKEND_TRY(emo_floats(c, 0, "x", &p.a));
  EC_BACKEND_TRY(emo_read_packed(c, &places, &packed));
  EC_BACKEND_TRY(emo_optional(c, 4, "lhs", &lhs));
  EC_BACKEND_TRY(emo_optional(c, 5, "rhs", &rhs));
  if (p.a->rank < 1 || packed.w->rank < 2)
    return EC_ARG_FAIL(c, "'x' has no dimensions, or 'w' fewer than two");
  const bool has_m = p.a->rank > 1;
  const int64_t rows = packed.w->sizes[packed.w->rank - 2];
  side left = side_of(p.a, lhs);
  const side right = side_of(packed.w, rhs);
  p.packed = &packed;
  p.k = p.a->sizes[p.a->rank - 1];
  p.m = has_m ? p.a->sizes[p.a->rank - 2] : 1;
  p.n = p.is_transposed ? rows : packed.width;
  EC_BACKEND_TRY(check_inner(c, p.k, p.is_transposed ? packed.width : rows));
  return multiply(&p, 10, &left, &right, has_m, true);
}

uint32_t emo_dequantize(const emo_call *c) {
  static const emo_packed_args places = {0, 1, 2, 4, 5, 6};
  enum { GREATEST = 448 * 6 /* e4m3's times e2m1's */ };
  emo_packed p;
  const ec_backend_tensor *global, *out;
  float row[BLOCK];
  EC_BACKEND_TRY(emo_read_packed(c, &places, &p));
  EC_BACKEND_TRY(emo_optional(c, 3, "global_scale", &global));
  if (global) EC_BACKEND_TRY(EC_ARG_COUNT(c, global, "global_scale", 1));
  int64_t sizes[EMO_MAX_RANK];
  memcpy(sizes, p.w->sizes, p.w->rank * sizeof *sizes);
  sizes[p.w->rank - 1] = p.width;
  EC_BACKEND_TRY(emo_output(c, 7, p.w->rank, sizes, NULL, &out));
  const double factor = global ? emo_load(global, 0) / GREATEST : 1.0;
  for (int64_t r = 0; r < p.rows; r++)
    for (int64_t first = 0; first < p.width; first += BLOCK) {
      const int64_t count = p.width - first < BLOCK ? p.width - first : BLOCK;
      emo_decode(&p, r, first, count, row);
      for (int64_t i = 0; i < count; i++)
        emo_store_at(out, r * p.width + first + i, (double)row[i] * factor);
    }
  return EC_BACKEND_OK;
}
